"""Where two results differ: as arrays of truth values, by tolerances that follow from the types."""
import ml_dtypes
import numpy as np

from draw import is_float

# of the type, that two right ways of computing may differ by: relative, and relative to the largest number that enters
# a sum
ROUNDINGS = 64
# of a sum with so many more numbers the roundings grow: what is added up is as large as they are many, in a random walk
TERMS = 128
ROUNDINGS_HALF = 6              # the same for types of 16 bits and less, where intermediate results are wider
EXACT = {
    "Identity", "Cast", "CastLike", "BitCast", "Abs", "Neg", "Relu", "Ceil", "Floor", "Round", "Sign", "Where", "Max",
    "Min", "Clip", "Transpose", "Reshape", "Concat", "Slice", "Gather", "Pad", "Add", "Sub", "Mul", "ArgMax", "ArgMin",
    "Compress", "ConstantOfShape", "Constant", "DepthToSpace", "SpaceToDepth", "Dropout", "Expand", "EyeLike",
    "Flatten", "GatherElements", "GatherND", "OneHot", "Range", "ReverseSequence", "Shape", "Size", "Split",
    "SplitToSequence", "Squeeze", "Unsqueeze", "Tile", "TopK", "Trilu", "Unique", "TensorScatter", "CenterCropPad",
    "MaxPool", "GlobalMaxPool", "MaxUnpool", "ReduceMax", "ReduceMin", "Sqrt", "Div", "Optional"
}
# somebody's draw: of it types and shapes are compared
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
RECURRENT = {"RNN", "GRU", "LSTM"}                              # each step takes over the roundings of those before


def step_of(dtype):
    return float(ml_dtypes.finfo(dtype).eps)


def largest(arrays):
    """The largest finite number."""
    most = 0.0
    for a in arrays:
        if a.dtype != object and a.size:
            x = np.abs(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64))
            most = max(most, float(np.max(np.where(np.isfinite(x), x, 0))))
    return most


def differences(op, each, inputs, got, want, terms=None):
    """Elements that differ; None: type or shape do. terms: a function that gives how far each element may be off because
    of the roundings of what enters (terms.py), requested where the numbers that come out do not excuse it."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return None
    if op in RANDOM:
        return np.zeros(got.shape, bool)
    if got.dtype.kind == "c":
        x, y = got.astype(np.complex128), want.astype(np.complex128)
        return ~((np.abs(x - y) <= 64 * np.finfo(got.dtype).eps * (1 + largest([want]))) | (np.isnan(x) & np.isnan(y)) |
                 (x == y))
    if not is_float(got.dtype):
        return np.asarray(got != want)
    x, y = got.astype(np.float64), want.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if op in EXACT:
        return ~same
    rounding = step_of(got.dtype) * (ROUNDINGS if got.dtype.itemsize > 2 else ROUNDINGS_HALF)
    if op in RECURRENT and inputs and inputs[0].ndim > 1:
        rounding *= max(1, *inputs[0].shape[:2])
    rounding *= max([1, *(v.size / max(got.size, 1) / TERMS for v in inputs)])
    near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= rounding * (np.abs(y) + (1 / 16 if each else 1)))
    wrong = ~(same | near)
    may = terms() if wrong.any() and terms else None
    if np.shape(may) in ((), x.shape) and may is not None:      # another shape: of a peer that has neither
        wrong &= ~(np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= rounding * np.abs(y) + may))
    return wrong


def by_largest(inputs, got, want):
    """terms, where nobody can say more: roundings of the largest number."""
    step = step_of(got.dtype) * (ROUNDINGS if got.dtype.itemsize > 2 else ROUNDINGS_HALF) if is_float(got.dtype) else 0
    return lambda: step * max(1.0, largest([want]), largest(i for i in inputs if i.dtype != object))
