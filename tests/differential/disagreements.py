"""Known disagreements: who is wrong, when, and what the standard says. A row explains the elements that its condition names (True: all)."""
import re
from dataclasses import dataclass

import numpy as np
from ml_dtypes import iinfo

from compare import step_of
from draw import is_float


@dataclass
class Row:
    op: str                     # regular expression
    peer: str                   # the one that is wrong; both: not determined
    when: object                # Case -> truth value, or one for each element
    why: str                    # by the standard's text


def always(c):
    return True


def given(name, *values):
    """An attribute has one of these values."""
    return lambda c: c.attributes.get(name) in values


def before(opset):
    return lambda c: c.opset < opset


def nan(c):
    """NaN enters."""
    return any(v is not None and is_float(v.dtype) and np.isnan(v.astype(np.float64)).any() for v in c.inputs)


def special(c):
    """NaN or an infinity enters."""
    return any(v is not None and is_float(v.dtype) and not np.isfinite(v.astype(np.float64)).all() for v in c.inputs)


def empty(c):
    return any(v is not None and v.size == 0 for v in c.inputs)


def half(c):
    return any(v is not None and v.dtype.name in ("float16", "bfloat16") for v in c.inputs)


def narrow(c):
    """In double precision, and right to single precision."""
    g, w = c.got[c.index], c.want[c.index]
    if g.dtype != np.float64 or g.shape != w.shape:
        return False
    return np.abs(g - w) <= 1e-5 * (1 + np.abs(w))


def both(*conditions):
    return lambda c: np.logical_and.reduce(np.broadcast_arrays(*[condition(c) for condition in conditions]))


def of_type(c):
    return c.got[c.index].dtype != c.want[c.index].dtype


def of_shape(c):
    return c.got[c.index].shape != c.want[c.index].shape


def outside(c):
    """Numbers that the integer type of the result does not hold."""
    x, to = c.inputs[0], c.got[0].dtype
    if not is_float(x.dtype) or is_float(to) or to == object or to == bool:
        return False
    v, i = x.astype(np.float64), iinfo(to)
    return ~((v > int(i.min) - 1) & (v < int(i.max) + 1))


def outside_power(c):
    with np.errstate(all="ignore"):
        y = np.power(c.inputs[0].astype(np.float64), c.inputs[1].astype(np.float64))
    i = np.iinfo(c.got[0].dtype)
    return ~((y > float(i.min) - 1) & (y < float(i.max)))


def infinite(c):
    return np.isinf(c.inputs[0].astype(np.float64))


def outvoted(c):
    """The other peer gives what we give."""
    return c.agree


def neighbours(c):
    g, w = c.got[c.index], c.want[c.index]
    return c.index == 0 and np.abs(g.astype(np.int64) - w.astype(np.int64)) <= 1


def steep(c):
    """Beside a pole, and right but for that."""
    g, w = c.got[0].astype(np.float64), c.want[0].astype(np.float64)
    return np.abs(g - w) <= 64 * step_of(c.got[0].dtype) * (1 + w * w)


def integers(c):
    return c.inputs[0].dtype.kind in "iu"


def overflows(c):
    """Sums, squares or products of integers that may leave the type."""
    t = c.got[0].dtype
    return t.kind in "iu" and sum(float(np.sum(v.astype(np.float64) ** 2)) for v in c.inputs if v is not None and v.dtype == t) > float(np.iinfo(t).max)


def not_positive(c):
    return integers(c) and bool((c.inputs[0] <= 0).any())


ORT, REF, EITHER = "onnxruntime", "reference", "both"
ROWS = [
    # what the standard does not determine
    Row("Cast|CastLike", EITHER, outside, "a float outside the range of an integer type is undefined"),
    Row("Pow", EITHER, both(integers, outside_power), "a power that the integer type does not hold is undefined"),
    Row("Reduce.*", EITHER, overflows, "a sum that the integer type does not hold is undefined"),
    Row("ReduceLogSum|ReduceLogSumExp", EITHER, not_positive, "a logarithm that is no number is undefined in integers"),
    Row("ArgMax|ArgMin|ReduceMax|ReduceMin|Max|Min|Relu|Clip|TopK|MaxPool|GlobalMaxPool|Hardmax|Sign", EITHER, nan, "the order of NaN is not said; NaN that enters gives NaN here"),
    Row("Resize|RoiAlign|DeformConv|LRN", EITHER, narrow, "scales are floats, and so may places be computed"),
    Row("Tan", EITHER, steep, "beside a pole a rounding of x shows"),
    Row("Shrink", EITHER, lambda c: c.inputs[0].dtype.kind == "u" or overflows(c), "a float outside the range of an integer type is undefined"),
    Row("BatchNormalization|LayerNormalization|HardSwish|DFT|GroupNormalization|InstanceNormalization|RMSNormalization", EITHER, narrow, "epsilon and constants are floats"),
    Row("Cast|CastLike", EITHER, lambda c: c.got[0].dtype == object, "how many digits a number has as text is not said"),
    Row("HardSigmoid|Gelu", EITHER, narrow, "alpha and constants are floats"),
    Row("ScatterElements|ScatterND|ReduceLogSumExp", EITHER, special, "which of NaN and a number is greater is not said"),
    Row("Attention|AffineGrid|LeakyRelu|ThresholdedRelu|Elu|Celu|Selu", EITHER, narrow, "scales and alpha are floats"),
    Row("DynamicQuantizeLinear", EITHER, neighbours, "x / scale is half way between two numbers but for a rounding of the scale"),
    Row("ReduceProd", EITHER, integers, "a product that the integer type does not hold is undefined"),
    Row("Sum|Mean|LpPool", REF, half, "sums are wider than the type"),
    Row("Dropout", ORT, before(12), "the mask is not filled outside training"),
    Row("Clip", ORT, infinite, "the text's default bounds are the ends of the type, the standard's function body has none where none is given, and so have we"),
    # the reference evaluator
    Row("Scaler|Normalizer|FeatureVectorizer|Linear.*", REF, of_type, "the result is of floats"),
    Row("Reduce.*", REF, of_type, "the result has the type of the input"),
    Row("GlobalMaxPool", REF, of_shape, "the first two dimensions stay"),
    Row("LSTM|GRU|RNN", REF, always, "sequence_lens, clip, directions and activations count"),
    Row("BatchNormalization", REF, before(14), "mean and variance are inputs, not the batch's"),
    Row("Softmax|LogSoftmax|Hardmax", REF, before(13), "before version 13 the input is taken as a matrix"),
    Row("Loop", REF, of_shape, "scan outputs are stacked along a new first axis"),
    Row("LpNormalization", REF, given("p", 1), "input / norm keeps the sign"),
    Row("RoiAlign", REF, outvoted, "of the samples' interpolated values the maximum, outside -1..size zero"),
    Row("MaxPool|AveragePool|LpPool|Slice|Unsqueeze", REF, of_shape, "pads and clamped places count; negative axes count in the result"),
    Row("Resize", REF, given("coordinate_transformation_mode", b"pytorch_half_pixel", b"align_corners"), "the resized length is a whole number"),
    Row("OneHot", REF, outvoted, "values are moved as they are"),
    Row("SequenceConstruct", REF, always, "a tensor inserted at the sequence's length becomes its last"),
    Row("Shape", REF, of_shape, "an end before the start leaves nothing"),
    Row("StringSplit", REF, always, "an empty string has no parts"),
    Row("LRN", REF, always, "the sum ends at channel c + ceil((size - 1) / 2)"),
    Row("GridSample|Det|Attention|RoiAlign|DeformConv|Resize|Gelu", REF, half, "sums are wider than the type"),
    Row("MaxPool|LpPool", REF, lambda c: "dilations" in c.attributes, "dilated windows keep their places"),
    Row("LinearRegressor|LinearClassifier", REF, always, "intercepts are 0 where none are given"),
    Row("Normalizer", REF, always, "x / max(x), x / sum(|x|)"),
    Row("AffineGrid|Det|Celu|Shrink|HannWindow|HammingWindow|BlackmanWindow|Unique|DFT|STFT", REF, of_type, "the result's type is the schema's"),
    Row("Attention|BatchNormalization|InstanceNormalization|GridSample|HardSigmoid|HardSwish|LeakyRelu|Erf|Elu|Selu|Celu|LRN|ThresholdedRelu|Gelu|Mish", REF, narrow, "the type of the result says the precision"),
    Row("ConvTranspose", REF, lambda c: c.attributes.get("group", 1) > 1, "each group has its own part of the bias"),
    Row("PRelu", REF, special, "what is not negative stays, 0 too where the slope is infinite"),
    Row("DynamicQuantizeLinear", REF, lambda c: c.index > 0 or not c.inputs[0].any(), "a range of nothing has any scale"),
    Row("DynamicQuantizeLinear|PRelu|StringSplit|LRN|MaxPool|AveragePool|LpPool", REF, outvoted, "as its text says and onnxruntime has it"),
    Row("AveragePool", REF, given("ceil_mode", 1), "what lies outside is not counted"),
    Row("MaxPool|AveragePool|LpPool", REF, lambda c: c.attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or c.index == 1, "SAME keeps ceil(size / stride); indices count within the whole tensor"),
    Row("Unique", REF, given("sorted", 0), "unsorted values come in the order of their first occurrence"),
    Row("StringNormalizer", REF, always, "stop words go by is_case_sensitive; empty strings stay; nothing left is one empty string"),
    # onnxruntime
    Row("RoiAlign|BlackmanWindow|HammingWindow|HannWindow", ORT, narrow, "the type of the result says the precision"),
    Row("Shrink", ORT, integers, "x - bias is computed in numbers, not in the type's whole ones"),
    Row("ReduceMean", ORT, empty, "the mean of nothing is undefined"),
    Row("AveragePool|MaxPool|LpPool|Conv|ConvInteger|QLinearConv", ORT, of_shape, "SAME keeps ceil(size / stride), whatever the dilation"),
    Row("Reduce.*", ORT, empty, "what is reduced has size 1 or goes, and an empty sum is 0"),
    Row("MeanVarianceNormalization", ORT, always, "1e-9 is added before the division"),
    Row("AffineGrid", ORT, always, "the only place of an axis of size 1 is -1 where corners are aligned, else 0"),
    Row("Resize", ORT, given("coordinate_transformation_mode", b"align_corners"), "the standard's evaluator takes scale * length where scales are given"),
    Row("ReduceLogSumExp", ORT, nan, "a sum with NaN is NaN"),
    Row("GridSample", ORT, given("padding_mode", b"border"), "with border, places outside are clamped before their neighbours are taken: the standard's evaluator"),
    Row("MaxPool", ORT, given("auto_pad", b"SAME_UPPER", b"SAME_LOWER"), "the padding of SAME is never negative"),
    Row("LpPool", ORT, given("auto_pad", b"SAME_UPPER", b"SAME_LOWER"), "SAME pads for the dilated window"),
    Row("Mod", ORT, given("fmod", 1), "of integers it is exact"),
    Row("Gemm", ORT, empty, "beta C stays where the product is an empty sum"),
    Row("MatMul|MatMulInteger", ORT, empty, "an empty sum is 0"),
    Row("Slice", ORT, of_shape, "start and end are clamped before elements are counted"),
    Row("Gather", ORT, outvoted, "strings are moved as they are"),
    Row("Softmax|LogSoftmax", ORT, special, "a sum with NaN is NaN"),
    Row("GroupNormalization|Shrink|ThresholdedRelu|Elu|Celu", ORT, narrow, "the type of the result says the precision"),
]


def explain(case, wrong):
    """The row that explains all elements that differ, or None. wrong: None where type or shape differ."""
    for row in ROWS:
        if re.fullmatch(row.op, case.op) and row.peer in (case.peer, "both"):
            covers = row.when(case)
            if np.all(covers) if wrong is None else np.all(np.broadcast_to(covers, wrong.shape)[wrong]):
                return f"{row.op} ({row.peer}): {row.why}"
    return None
