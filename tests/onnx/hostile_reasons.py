"""Hostile forms that run here, and that both peers refuse or answer otherwise: why that is right (test_hostile.py fails for any other). A row: operators and forms, regular expressions of the whole, and
the reason. To add one: as narrow as the reason is; what can be said of the values belongs to differential/disagreements.py."""
import re

EMPTY = r"(.*, |constant )?\w+ axis \d of 0"
TYPE = r"\w+ of type \d+"
ONE = r"(.*, |constant )?\w+ (rank (up|down)|first of axis 0)"
WORD = r"\w+ = (\[.*)?b'\\xff\\xfe%n\\n'.*"
NONE = r"\w+ = \[\]"
ROWS = [
    # what the peers do not know
    (".*", r"opset \d+", "an older version, which they no longer run or take for a newer one"),
    ("Attention|FlexAttention|Col2Im|ConvTranspose|GlobalAveragePool|GlobalLpPool|GlobalMaxPool|GroupNormalization|Resize|TfIdfVectorizer|ScatterND|RoiAlign|MultiHeadAttention|GroupQueryAttention|Upsample|LpNormalization|"
     "LinearRegressor|LinearClassifier|SVMRegressor|SVMClassifier|TreeEnsemble.*|Normalizer|Scaler|.*Pool|DeformConv|Inverse|STFT|DFT", EMPTY, "of no elements there are none"),
    ("Affine|ParametricSoftplus|ScaledTanh|ImageScaler|Crop|Gelu|QuickGelu|BiasGelu|FastGelu|FusedMatMul|Inverse|Upsample|Resize|GridSample|MaxRoiPool|MeanVarianceNormalization|LinearRegressor|TreeEnsemble.*|SVMRegressor|OneHot|"
     "QLinear.*|RotaryEmbedding|LRN|LpNormalization|Normalizer|Scaler|Binarizer|.*LayerNormalization|Attention|Momentum|Adam|Adagrad|Unique|CumSum", TYPE, "a type that the schema, or the definition, takes"),
    ("Attention", r"[qk]v?_num_heads = \d|no left_window_size|left_window_size = -1", "what is said twice, or not, where the shapes tell"),
    ("LayerNormalization|GroupNormalization|Range|RMSNormalization", r"stash_type = (1|10|11|16)", "the float types of stash_type"),
    ("ConvTranspose", r"output_padding = .*", "less than the stride or the dilation"),
    ("MaxUnpool", r"(strides|kernel_shape) = .*", "output_shape says the size, and places are its own"),
    ("Resize", r"antialias = 1|no mode|exclude_outside = 1", "what concerns other modes only is not used"),
    ("LRN|.*LayerNormalization|MatMulIntegerToFloat", r"(.*, |constant )?x\d? (rank up|first of axis 0)", "any rank, as the formula has it"),
    ("Attention", r"input 2 absent|2 inputs|output 0 absent", "com.microsoft: a bias and a first output that nobody wants may be absent"),
    ("GroupQueryAttention|SequenceMap|EmbedLayerNormalization|SkipLayerNormalization", r"output \d absent", "an output that nobody wants"),
    ("QLinearAdd|QLinearMul|QLinearSigmoid|QLinearLeakyRelu|DFT", r"input \d absent|\d inputs", "what is optional may be absent"),
    ("RotaryEmbedding", r"(no )?num_heads( = 0)?", "the tables tell how many"),
    ("Momentum|Adam|Adagrad", r"9 inputs more", "more tensors, whose new values nobody wants"),
    ("RNN|GRU|LSTM", r"no hidden_size|activations = \[\]|activation_(alpha|beta) = .*", "the weights tell the size, an empty list is none, and what no activation takes is not used"),
    ("LinearClassifier|Scaler|ImageScaler|Crop|FusedConv|Bernoulli|.*Regressor|.*Classifier", NONE + "|no (offset|scale)", "an empty list is none"),
    ("FusedConv", r"(no )?activation_params.*", "those of the operator where they are not given; what it does not take is not used"),
    ("TreeEnsemble.*|SVM.*|Linear.*|LabelEncoder|.*Encoder|CategoryMapper|StringNormalizer|StringConcat|ZipMap|Tokenizer|.*Vectorizer|RegexFullMatch", WORD, "bytes that are no text stay as they are"),
    ("Scan", r"(.*, |constant )?(initial|x) (rank up|axis \d of 1)|output 1 absent", "a body is of the shapes that come"),
    ("SequenceMap", r"(constant )?x\d (rank (up|down)|first of axis 0)", "a body is of the shapes that come"),
    (".*", r"\w+: (input|output) \d (is \w+|as .*|twice.*|declared as .*|of .*)", "a body may give what it was given, and its declarations may be wider"),
    # one number, in a list or not
    ("TopK|Squeeze|ConstantOfShape|OneHot|H.*Window|BlackmanWindow|RotaryEmbedding|GroupQueryAttention|TreeEnsemble.*|Pad|Slice|Clip|Dropout|CumSum|Range|Trilu|NonMaxSuppression|DFT|STFT", ONE, "one number, in a list or not, or one row"),
    ("Einsum", r"equation = b''", "a scalar without names"),
    # what the text leaves open
    ("Bernoulli", r".*(x (all|one) .*|seed = .*|x (rank down|first of axis 0))", "below 0 never, above 1 always; any number is a seed"),
    ("RoiAlign|MaxRoiPool", r".*(nan|inf|3e\+38)", "regions without end: samples outside are 0, NaN stays"),
    ("QuantizeLinear|DynamicQuantizeLinear", r".*(3e\+38|0\.0|inf)", "what is too large, infinite by a scale of 0 too, is the largest number"),
    ("TfIdfVectorizer", r"max_skip_count = .*|ngram_(counts|indexes) = .*|pool_int64s = .*", "n-grams that the row does not reach, or of a length without any"),
    ("TreeEnsembleRegressor", r"no n_targets", "one, where it is not said"),
    ("Resize", r"cubic_coeff_a = .*", "infinities meet"),
    ("OneHot", r"(constant )?depth all .*", "a depth is cut to an integer"),
    ("Unique", r".* nan", "whether one NaN is another's equal"),
    ("RNN|GRU|LSTM", r".*x4 .*", "of a length of 0 the last state is the first"),
    ("GroupQueryAttention", r".*x5 .*", "what lies behind a sample's last key is nobody's"),
    ("TreeEnsemble(Regressor|Classifier)", r"nodes_modes = .*|(target|class)_\w+ = .*", "a leaf at the root; votes add up, and a leaf without one says 0"),
    ("GroupQueryAttention", r"local_window_size = \d+", "a window that is longer than all keys is none"),
    ("Cast", r"to = 8|input of type 8", "any type becomes text, and the other way"),
    ("Cast", r"to = 24", "what the type does not hold is undefined"),
    ("BatchNormalization", r"x of type 11", "its other inputs are of single precision there"),
    ("LabelEncoder", r"(keys|values|default)_tensor, form 0", "lists may be tables of one row"),
    ("STFT", r"(.*, |constant )?signal axis 2 \+ 1", "a complex signal has both sides"),
    ("SoftmaxCrossEntropyLoss|NegativeLogLikelihoodLoss", r"y .*|ignore_index = .*", "the interpreter's sums are of single precision, one number after the other"),
    ("AveragePool|LpPool|MaxPool", r"(strides|kernel_shape) = .*", "a stride may be longer than the window, and than the picture: the padding of SAME is never negative"),
    ("TreeEnsembleClassifier", r".*x0 .*|nodes_nodeids = .*", "labels by onnxruntime's rule for two classes"),
    ("AveragePool|LpPool|MaxPool|ConvTranspose", r"auto_pad = .*", "SAME where pads are given as well"),
    ("BlackmanWindow|H.*Window", r"output_datatype = \d+", "integers are cut"),
    # the standard's text, or its function's body
    ("TreeEnsemble", r"post_transform = [12]", "1 is SOFTMAX, 2 LOGISTIC"),
    ("TreeEnsemble", r"nodes_(true|false)(leafs|nodeids) = .*", "paths may meet"),
    ("TreeEnsemble", r"(nodes_splits|leaf_weights), form \d+", "of less precision, as they are given"),
    ("TreeEnsemble", r"membership_values, form \d+", "a last set without its NaN, or with it"),
    ("Attention", r".*attn_mask axis \d of 1", "version 23 repeats a mask of one key"),
    ("Attention|FlexAttention", r"softmax_precision = (10|16)", "in more precision than is asked for"),
    ("RMSNormalization", r"[XW] of type \d+", "the result is of the scale's type"),
    ("Resize", r"(.*, |constant )?(X|x0|roi) (of type \d+|axis \d .*)|.*sizes all 33", "integers are rounded, single precision rounds places at the border"),
]


def reason(op, form):
    return next((why for ops, forms, why in ROWS if re.fullmatch(ops, op) and re.fullmatch(forms, form)), None)
