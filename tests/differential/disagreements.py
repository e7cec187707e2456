"""Known disagreements: who is wrong, exactly when, and what the standard says. A row explains the elements that its
condition names (True: all), where type and shape agree; else the whole output.

A row never speaks against both peers: where they agree with each other and not with us it is not used, unless it brings
a proof that neither can be taken at its word. Nor does it take our word: a condition that says nothing of our own value
(is not `judging`) needs a witness, the other peer or one in another precision, who gives what we give. To add one: the
narrowest condition on attributes, types, values and version under which the peer is wrong, and the sentence that says
who is right. `graphs.py --table` counts each row's use, and one that explains nothing goes; `graphs.py --plant` puts
faults where a row explained something, each of which must be found (plant.py)."""
import re

import numpy as np
from ml_dtypes import finfo

from compare import differences, step_of
from conditions import (
    beyond_double, beyond_range, cancelled, cancelled_sum, clipped, empty, exact_sum, flat, infinite, integers,
    lost_logarithm, multiplied, nan_stays, narrow, not_positive, of_type, outside, outside_power, outside_shrink,
    overflows, quantised, rough, rounded_to_bits, running, same_number, same_row, steep, whole_logarithm, whole_power)
from conditions_of_operators import (
    all_channels, as_matrix, axes_count_back, blended, by_formula, by_scales, cut_length, declared_otherwise,
    empty_word, ends_at_most, ends_before_first, extrapolated, full_of_bytes, in_a_row, in_sequence, inserted_at_end,
    largest_is_nan, largest_with_nan, neutral, normalised, of_nothing, of_row_maximum, one_place, pooled, raw_product,
    regression, resized, sampled_at_border, sliced, spread_out, starts_before_first, to_one, transformed, two_classes,
    unsorted, with_condition, zero_member)
from draw import is_float
from table import EACH
from waiver import (
    EITHER, INFERENCE, ORT, REF, Row, arbiter, before, both, confirmed, given, has, judging, lacks, output, outvoted,
    results, witnessed)

ROWS = [
    # what the standard does not determine
    Row("Cast|CastLike", EITHER, outside, "a float outside the range of an integer type is undefined", "Cast: 'float to integer: undefined if it does not fit'", free=True),
    Row("Pow", EITHER, outside_power, "a power that the integer type does not hold is undefined", "the text knows no overflow of integers; peers take a double and cast it, which is undefined", free=True),
    Row("Shrink", EITHER, outside_shrink, "a float outside the range of an integer type is undefined", "as Cast", free=True),
    Row("ReduceL2|ReduceMean|ReduceLogSum|ReduceLogSumExp", EITHER, overflows, "a sum that the integer type does not hold is undefined", free=True),
    Row("ReduceProd|ReduceSum|ReduceSumSquare|ReduceL1", ORT, overflows, "integers wrap"),
    Row("ReduceLogSum", EITHER, not_positive, "a logarithm that is no number is undefined in integers", free=True),
    Row("ReduceProd", EITHER, beyond_range, "whether a product over- or underflows on the way is a matter of order",
        "the order and the precision of a product are not said"),
    Row("BatchNormalization|InstanceNormalization|LayerNormalization", EITHER, flat, "where the deviation is small the rounding of the mean shows", "sums of single precision differ by their order"),
    Row("Tan", EITHER, steep, "beside a pole a rounding of x shows", "tan' is 1 + tan^2"),
    Row("ReduceLogSum", EITHER, judging(lambda c: is_float(c.got[0].dtype) and cancelled_sum(c)), "the order of a sum is not said", "as of any sum"),
    Row("Cast|CastLike", EITHER, same_number, "how many digits a number has as text is not said"),
    Row("GroupNormalization|LayerNormalization|RMSNormalization|SimplifiedLayerNormalization", EITHER, rough, "the first stage is as precise as stash_type",
        "stash_type is 1, single precision, where it is not given"),
    Row("Pad|Trilu|CenterCropPad|EyeLike", EITHER, judging(lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and (results(c)[0] == 2.0 ** -127) & np.isnan(results(c)[1])), "e8m0 holds no 0 to fill with",
        "the type has neither 0 nor a sign"),
    Row("Dropout", ORT, both(output(1), before(12)), "the mask is not filled outside training"),
    Row("Clip", ORT, clipped, "the standard's function body has no bound where none is given"),
    Row("AveragePool|MaxPool|LpPool", EITHER, judging(lambda c: not c.step.has("MaxUnpool") and pooled(c)), "pads are not negative, those of SAME and LOWER and what ceil_mode adds lie where the text says, dilated windows are longer",
        "windows, padding and what they hold by the text's formulas, in double precision"),
    Row("ConvTranspose", EITHER, spread_out, "each group has its own channels and bias; SAME keeps size * stride, and where that is more than the windows reach they lie at its begin",
        "sizes, pads and sums by the text's formulas, in double precision"),
    # the reference evaluator
    Row("LogSoftmax", REF, lost_logarithm, "x - max - log(sum), of which the logarithm of the rounded quotient is no good form"),
    Row("LSTM|GRU|RNN", REF, by_formula, "sequence_lens, clip, activations and input_forget count"),
    Row("BatchNormalization", REF, before(14), "mean and variance are inputs, not the batch's"),
    Row("Softmax|LogSoftmax|Hardmax", REF, both(before(13), as_matrix), "before version 13 the input is taken as a matrix", "'The input does not need to explicitly be a 2D vector; rather, it will be coerced into one'"),
    Row("Loop", REF, both(output(1), in_a_row), "scan outputs are stacked along a new first axis"),
    Row("Loop", REF, with_condition, "a condition that is absent is true"),
    Row("LpNormalization", REF, given("p", 1), "the norm is the sum of magnitudes"),
    Row("RoiAlign", REF, given("mode", b"max"), "of the samples' interpolated values the maximum"),
    Row("GlobalMaxPool", EITHER, largest_is_nan, "NaN is the largest, as in Max"),
    Row("GlobalMaxPool", REF, lambda c: c.inputs[0].ndim != 4, "the first two dimensions stay, and there are no more of size 1 than there were"),
    Row("Cast|CastLike", REF, both(of_type("object"), lambda c: outvoted(c) or c.got[0].dtype == bool), "text is read as a number, of which 0 is false"),
    Row("Cast|CastLike", REF, both(of_type("bool"), lambda c: c.got[0].dtype == object), "numbers become text in plain representation, and bool is 1 and 0 as a number"),
    Row("Cast|CastLike", REF, lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and ((np.abs(c.inputs[0].astype(np.float64)) < 2.0 ** -126) | infinite(c)),
        "what is outside of e8m0's range becomes the end of it, or NaN where it does not saturate"),
    Row("Scan", REF, both(outvoted, before(9)), "before version 9 a batch is the first axis, and lengths stand before the states"),
    Row("LRN", REF, rough, "the formula in double precision gives ours to 1e-16"),
    Row("ai.onnx.ml.SVMClassifier", REF, both(output(0), two_classes), "of two classes the sign of the decision says which"),
    Row("MeanVarianceNormalization", REF, cancelled, "the function's body takes E(x^2) - E(x)^2, which loses digits"),
    Row("RoiAlign", REF, before(16), "before version 16 no half pixel is taken off"),
    Row("Slice", REF, both(starts_before_first, confirmed(sliced)), "a start is clamped into the axis before steps go backwards"),
    Row("ai.onnx.ml.TreeEnsemble", REF, both(given("aggregate_function", 2, 3), judging(lambda c: (results(c)[0] == 0) & (np.abs(results(c)[1]) > 0.99 * float(finfo(c.got[0].dtype).max)))), "a target without a leaf stays 0"),
    Row("Pow", REF, lambda c: np.isneginf(c.inputs[0].astype(np.float64)) & (c.inputs[1].astype(np.float64) == 0.5), "IEEE 754: a power of -inf with a positive exponent that is no odd integer is inf; a square root was taken"),
    Row("QLinearMatMul", REF, multiplied, "float8 holds numbers that are not whole, and NaN, which is any integer; the quotient of scales is wider than their type"),
    Row("ai.onnx.preview.training.Ada.*|ai.onnx.preview.training.Momentum", REF, rough, "attributes are of single precision, defaults too"),
    Row("ai.onnx.ml.TreeEnsemble", REF, zero_member, "a list of members ends with NaN; 0 is a member"),
    Row("Resize", EITHER, both(given("coordinate_transformation_mode", b"pytorch_half_pixel"), to_one, confirmed(resized)), "the only place of an axis of size 1 is 0"),
    Row("ReduceLogSumExp", REF, lambda c: np.isinf(results(c)[0]) & np.isnan(results(c)[1]), "the logarithm of an infinite sum is infinite"),
    Row("HardSwish", EITHER, rough, "alpha is 1/6", "the function's body has 1/6 in single precision"),
    Row("DeformConv|GridSample", REF, rough, "the type of the result says the precision"),
    Row("SequenceConstruct|SequenceEmpty", REF, both(lambda c: c.step.has("Optional"), confirmed(in_sequence)), "the element of an optional sequence is the sequence"),
    Row("StringNormalizer", REF, normalised, "stop words are whole strings and go by is_case_sensitive, whatever becomes of the case; the others stay as they are"),
    Row("LRN", REF, all_channels, "every channel is normalised, not as many as the batch has rows"),
    Row("Shape", REF, ends_before_first, "an end before the start leaves nothing"),
    Row("Unsqueeze", REF, both(before(13), axes_count_back), "negative axes count in the result's rank"),
    Row("OneHot", REF, blended, "values are moved as they are"),
    Row("SequenceConstruct|SequenceEmpty", REF, both(inserted_at_end, confirmed(in_sequence)), "a tensor inserted at the sequence's length becomes its last"),
    Row("StringSplit", REF, empty_word, "an empty string has no parts"),
    Row("ai.onnx.ml.LinearRegressor|ai.onnx.ml.LinearClassifier", REF, regression, "intercepts are 0 where none are given"),
    Row("ai.onnx.ml.Normalizer", REF, of_row_maximum, "MAX divides by max(x), not by the largest magnitude"),
    Row("ai.onnx.ml.SVMClassifier", REF, lambda c: "prob_a" in c.attributes and not two_classes(c), "pairwise chances are coupled as LIBSVM does"),
    Row("PRelu", REF, lambda c: ~np.isfinite(c.inputs[1].astype(np.float64)), "what is not negative stays, 0 too where the slope is infinite"),
    Row("DynamicQuantizeLinear", REF, lambda c: not c.inputs[0].any(), "a range of nothing has any scale"),
    Row("ai.onnx.ml.LinearClassifier", REF, both(output(0), given("post_transform", b"LOGISTIC")), "the label is that of the greatest score, before the transform makes several 1"),
    Row("Unique", REF, both(given("sorted", 0), confirmed(unsorted)), "unsorted values come in the order of their first occurrence"),
    Row("Resize", REF, both(given("coordinate_transformation_mode", b"pytorch_half_pixel", b"tf_crop_and_resize"), cut_length, confirmed(resized)), "the resized length is a whole number"),
    Row("Resize", REF, both(lambda c: c.inputs[0].dtype.kind == "c", resized), "a complex number has an imaginary part, too"),
    Row("Trilu|CenterCropPad|Pad", REF, judging(lambda c: c.got[0].dtype == object and (c.got[0] == "") & (c.want[0] == 0)), "what fills a tensor of strings is a string"),
    Row("Resize", REF, both(integers, given("coordinate_transformation_mode", b"tf_crop_and_resize"), has("extrapolation_value"), confirmed(resized)), "how extrapolation_value becomes a whole number is not said"),
    Row("Resize", REF, rough, "scales are of single precision, and so are places"),
    Row("Resize", REF, both(given("coordinate_transformation_mode", b"half_pixel_symmetric"), cut_length, confirmed(resized)), "where offset + (x + 0.5) / scale is whole but for a rounding, it is that pixel"),
    Row("Gelu", EITHER, rough, "the type of the result says the precision", "with numbers in double precision the formula gives ours; Erf and the constants of the function's body are of single precision"),
    Row("ai.onnx.preview.FlexAttention", REF, rough, "the type of the result says the precision: its scale is of single precision"),
    Row("Erf|AffineGrid|Det|HannWindow|HammingWindow|BlackmanWindow|DFT|STFT", REF, narrow, "the type of the result says the precision"),
    # onnxruntime
    Row("Max|Min|ReduceMax|ReduceMin|Relu|Clip|Sign|ReduceLogSumExp|ScatterElements|ScatterND", ORT, nan_stays, "NaN that enters stays"),
    Row("Softplus", ORT, both(outvoted, lambda c: c.inputs[0].astype(np.float64) > np.log(float(finfo(c.inputs[0].dtype).max))), "log(exp(x) + 1) is near x where exp(x) alone does not fit the type"),
    Row("Softmax|LogSoftmax", ORT, judging(lambda c: same_row(c, lambda x: ~np.isfinite(x)) & np.isnan(results(c)[0])), "a sum with NaN is NaN", "IEEE 754"),
    Row("Hardmax", EITHER, largest_with_nan, "NaN is the largest, as in the standard's evaluator; before version 13 the input is taken as a matrix", "position of the largest by numpy"),
    Row("Hardmax|ArgMax|ArgMin", ORT, lambda c: same_row(c, np.isnan), "NaN is the largest, as in the standard's evaluator"),
    Row("Attention", EITHER, rough, "the type of the result says the precision", "with numbers in double precision the formula gives ours to 1e-16; the root of scale is of single precision there"),
    Row("Attention", REF, both(has("softcap"), raw_product), "mode 0 is the raw product, before softcap"),
    Row("Resize", ORT, both(given("coordinate_transformation_mode", b"tf_crop_and_resize"), extrapolated, confirmed(resized)), "what lies outside the picture has extrapolation_value, on axes that keep their length too"),
    Row("MaxPool", ORT, lambda c: c.step.has("MaxUnpool") and len(c.step.nodes[1].input) > 2, "places count in the size that kernel and strides give, whatever output_shape is: the standard's own test"),
    Row("StringSplit", ORT, both(outvoted, has("maxsplit"), lacks("delimiter")), "what is left after that many splits stays as it is"),
    Row("Attention", ORT, lambda c: outvoted(c) and (results(c)[0] == 0) & np.isnan(results(c)[1]), "a query that sees no key gives a row of 0"),
    Row("Attention", ORT, both(outvoted, given("is_causal", 1), lambda c: any(v is not None for v in c.inputs[4:])), "a query sees as many more keys as are before it: those of past_key, or nonpad_kv_seqlen less the queries"),
    Row("ai.onnx.ml.SVMClassifier", ORT, both(output(1), two_classes, given("post_transform", b"SOFTMAX", b"SOFTMAX_ZERO"), transformed), "scores of two classes are transformed, too"),
    Row("ReduceLogSumExp", ORT, lambda c: outvoted(c) and np.isinf(results(c)[1]) & np.isfinite(results(c)[0]), "the result fits the type, whatever its exponential does"),
    Row("ReduceLogSumExp", ORT, whole_logarithm, "the exponentials are numbers, not of the type's whole ones"),
    Row("Swish", ORT, lambda c: outvoted(c) and np.abs(np.subtract(*results(c))) <= step_of(c.got[0].dtype) * np.abs(c.inputs[0].astype(np.float64)), "the sigmoid is as exact near 0 as elsewhere"),
    Row("LRN", ORT, running, "the sum is that of a window's own squares"),
    Row("QuantizeLinear", EITHER, quantised, "the type of the scale, or `precision`, says the precision of the division; the rounded quotient and the zero point are added without an end, and NaN is any integer",
        "computed in double precision; NaN as Cast has it"),
    Row("Shrink", ORT, both(integers, outvoted), "x - bias is computed in numbers, not in the type's whole ones"),
    Row("ReduceLogSum|ReduceLogSumExp|ReduceMean", ORT, both(integers, of_nothing), "a logarithm or quotient that is no number is undefined in integers", free=True),
    Row("Reduce.*", ORT, both(of_nothing, confirmed(neutral)), "what is reduced has size 1 or goes, and an empty sum is 0"),
    Row("ReduceMean|ReduceSum", EITHER, exact_sum, "a sum of integers is exact, and so is their mean", "both take doubles, which do not hold it"),
    Row("Cast|CastLike", ORT, rounded_to_bits, "of a number that is not whole the fraction is cut off"),
    Row("DFT", ORT, both(rough, outvoted), "the type of the result says the precision"),
    Row("Slice", ORT, both(ends_at_most, confirmed(sliced)), "an end is clamped into the axis, whatever its number"),
    Row("com.microsoft.Tokenizer", ORT, judging(lambda c: empty(c) and c.got[0].shape[:-1] == c.inputs[0].shape), "the axis of tokens is there where there is no text, too"),
    Row("Cast|CastLike", EITHER, lambda c: c.got[0].dtype.name == "float8_e8m0fnu" and (c.inputs[0].astype(np.float64) <= 0), "the type holds neither 0 nor what is negative, so what becomes of them is undefined", "as Cast", free=True),
    Row("BatchNormalization", ORT, both(given("training_mode", 1), outvoted), "the mean is taken from x before the division"),
    Row("Cast|CastLike", ORT, lambda c: outvoted(c) and c.got[0].dtype == bool and (c.inputs[0].astype(np.float64) == 0), "'+/- 0.0 to False'"),
    Row("CastLike", ORT, both(given("round_mode", b"down", b"nearest"), confirmed(whole_power)), "round_mode says where a number goes that e8m0 does not hold"),
    Row("Attention", ORT, lambda c: np.isneginf(results(c)[0]) & (results(c)[1] == float(finfo(c.want[c.index].dtype).min)), "what is masked is -inf"),
    Row("com.microsoft.GridSample", ORT, sampled_at_border, "with border, places outside are clamped before their neighbours are taken: as of the standard's GridSample"),
    Row("com.microsoft.QLinearSoftmax", ORT, full_of_bytes, "what is out of range saturates: 1 is 256 steps"),
    # shape inference of the onnx package
    Row("Loop", EITHER, declared_otherwise, "what enters has its own sizes, whatever the body declares"),
    Row("STFT", INFERENCE, lacks("onesided"), "onesided is 1 where it is not given"),
    Row("Resize", ORT, both(has("keep_aspect_ratio_policy"), axes_count_back, confirmed(resized)), "axes may count from the end"),
    Row("MeanVarianceNormalization", ORT, cancelled, "1e-9 is added before the division"),
    Row("AffineGrid", ORT, one_place, "the only place of an axis of size 1 is -1 where corners are aligned, else 0"),
    Row("Resize", ORT, both(given("coordinate_transformation_mode", b"align_corners"), by_scales, confirmed(resized)), "the standard's evaluator takes scale * length where scales are given"),
    Row("GridSample", ORT, sampled_at_border, "with border, places outside are clamped before their neighbours are taken: the standard's evaluator"),
    Row("Mod", ORT, both(given("fmod", 1), beyond_double), "of integers it is exact"),
    Row("Gemm|MatMul|MatMulInteger", ORT, empty, "an empty sum is 0, and beta C stays"),
    Row("Gather", ORT, of_type("object"), "strings are moved as they are"),
    # the same node in another precision
    Row("(?!Cast).*", EITHER, arbiter(REF, np.float64), "intermediate results are as wide as need be", "the standard's evaluator gives ours where it computes in double precision"),
    Row("(?!Cast).*", EITHER, arbiter(REF, np.float32), "the standard's evaluator has constants of single precision", "it gives ours where all is of single precision"),
    Row("(?!Cast).*", REF, arbiter(ORT, np.float32), "onnxruntime gives ours where what enters is of single precision, which it takes"),
    Row("BlackmanWindow|HammingWindow|HannWindow|GroupNormalization|Shrink|ThresholdedRelu|Elu|Celu", ORT, narrow, "the type of the result says the precision"),
]


def explain(case, wrong):
    """The first row that explains some of the elements that are wrong, and which; or None. wrong: None where type or
    shape differ, which a row explains as a whole."""
    for row in ROWS:
        if re.fullmatch(row.op, case.step.name) and row.peer in (case.peer, EITHER) and (row.proof or
                                                                                         case.other != "peer"):
            try:
                covers = np.asarray(row.when(case))
                covers = covers if wrong is None else np.broadcast_to(covers, wrong.shape) & wrong
            except (ValueError, IndexError, TypeError):         # it cannot read what is there
                continue
            if wrong is None and covers.ndim:
                continue
            if covers.any() and not row.judges and not row.free:
                covers = np.broadcast_to(witnessed(case, covers), covers.shape)
            if covers.any():
                return row, covers if wrong is not None else True
    return None


def sides_with(step, inputs, got, want, third, wrong, terms=None):
    """Whose result a third one is, in the elements that are wrong."""
    def same(a):
        off = differences(step.name, step.name in EACH, inputs, a, third, terms)
        return off is not None and not (off if wrong is None else off & wrong).any()

    return "none" if third is None else "we" if same(got) else "peer" if same(want) else "neither"


def remaining(wrong, case_of, said, used=None):
    """What of `wrong` no row explains; None: type or shape differ, and no row says why. case_of: the Case, by what is
    left; said counts the rows; used gets the rows and what they explained."""
    while wrong is None or wrong.any():
        row = explain(case_of(wrong), wrong)
        if not row:
            break
        said["explained", str(row[0])] += 1
        if used is not None:
            used.append((row[0], np.asarray(row[1])))
        wrong = wrong & ~row[1] if wrong is not None else np.zeros(())
    return wrong
