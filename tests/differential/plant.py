"""Faults that a result may have, to see that a row of disagreements.py hides none of them."""
import numpy as np

from compare import EXACT, largest
from draw import is_float
from waiver import single


def garbage(x):
    if x.dtype == object:
        return np.array([f"{word}?" for word in x.ravel()], object).reshape(x.shape)
    if x.dtype == bool:
        return ~x
    if x.dtype.kind == "c" or x.dtype == np.float64:
        return np.where(np.isfinite(x), x * 1.375 + 0.8 + largest([x]) + 150, 2.8125)
    if is_float(x.dtype):
        wide = x.astype(np.float64)
        return np.where(np.isfinite(wide), wide * -1.375 + 0.8 + largest([x]) + 150, 2.8125).astype(x.dtype)
    return (x.astype(np.float64) // 2 + 3).astype(np.int64).astype(x.dtype)


def special(x, peers, may_be_nan):
    """A number becomes NaN, where no peer has one there, else infinite; may_be_nan: the logarithm of a sum that
    cancels."""
    theirs = [np.isnan(p.astype(np.float64)) for p in peers if p.shape == x.shape]
    theirs = may_be_nan | np.any(theirs or [False], axis=0)
    return np.where(np.isnan(x.astype(np.float64)), 0.0, np.where(theirs, np.inf, np.nan)).astype(x.dtype)


def changed(a, b):
    return (a != b) & ~((a != a) & (b != b))


def faults(step, inputs, got, covers, peers):
    """(what it is, the result with it): in all that the row explained. peers: their results."""
    covers = np.broadcast_to(covers, got.shape) if covers.ndim == 0 else covers
    if not got.size or covers.shape != got.shape:
        return
    if not is_float(got.dtype) and any(is_float(v.dtype) and np.isnan(v.astype(np.float64)).any() for v in inputs):
        return                                                  # NaN is any integer
    wanted = [("garbage", garbage)]
    if is_float(got.dtype) and got.dtype.name != "float8_e8m0fnu":
        wanted.append(("special values", lambda x: special(x, peers, step.op == "ReduceLogSum")))
    if is_float(got.dtype) and got.dtype.itemsize > 2 and step.name in EXACT:
        wanted.append(("ulps too much", lambda x: np.nextafter(np.nextafter(x, np.inf), np.inf)))
    if got.dtype == np.float64:
        wanted.append(("single precision", lambda x: x.astype(np.float32).astype(np.float64)))
    for kind, f in wanted:
        fault = np.asarray(f(got)).astype(got.dtype)
        at = covers & changed(fault, got) & (single(fault) | (kind != "single precision"))
        for p in peers:                                         # what a peer gives is that peer's fault, no row's
            at &= changed(fault, p) if p.shape == got.shape and p.dtype == got.dtype else True
        if at.any():
            yield kind, np.asarray(np.where(at, fault, got)).astype(got.dtype)
