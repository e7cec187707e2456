"""What a row of disagreements.py is made of: the case that it looks at, who agrees with us, and conditions out of
others. A condition takes a Case and gives a truth value, or one for each element of the output."""
import copy
from dataclasses import dataclass

import numpy as np
from onnx import numpy_helper

from compare import EXACT, differences, step_of
from draw import is_float, model_of
from table import EACH
from terms import Terms

# either: inference as well
ORT, REF, EITHER, INFERENCE = "onnxruntime", "reference", "either", "the standard's shape inference"


@dataclass
class Case:
    """What a row may request."""
    step: object
    versions: dict
    attributes: dict            # of the first node
    inputs: list                # of the first node, None where absent
    values: dict                # all that enters
    got: list
    want: list
    peer: str
    index: int                  # of the output
    # where they differ, the other peer gives what "we" do, what the "peer" does, or "neither"; "none": it does not run
    # this
    other: str
    terms: object = None        # how far each element may be off by the roundings of what enters (terms.py)


@dataclass
class Row:
    op: str                     # regular expression of the full name
    peer: str                   # the one that is wrong
    when: object                # Case -> truth value, or one for each element
    why: str                    # by the standard's text
    proof: str = ""             # why it holds even where the peers agree
    free: bool = False          # the standard lets the value be anything

    @property
    def judges(self):
        return getattr(self.when, "judges", False)

    def __str__(self):
        return f"{self.op} ({self.peer}): {self.why}"


def judging(condition):
    """A condition that bounds our own value."""
    condition.judges = True
    return condition


def confirmed(condition):
    """The other peer has ours, or the condition holds, which bounds our own value."""
    return judging(lambda c: outvoted(c) or condition(c))


def given(name, *values):
    """An attribute has one of these values."""
    return lambda c: c.attributes.get(name) in values


def has(name):
    return lambda c: name in c.attributes


def lacks(name):
    return lambda c: name not in c.attributes


def before(opset):
    return lambda c: c.versions[""] < opset


def both(*conditions):
    every = lambda c: np.logical_and.reduce(np.broadcast_arrays(*[condition(c) for condition in conditions]))
    return judging(every) if any(getattr(condition, "judges", False) for condition in conditions) else every


@judging
def outvoted(c):
    """The other peer gives what we give."""
    return c.other == "we"


def output(k):
    return lambda c: c.index == k


def of_shape(c):
    return c.got[c.index].shape != c.want[c.index].shape


def results(c):
    """Ours and the peer's; where the shapes differ nothing that compares."""
    t = np.complex128 if c.got[c.index].dtype.kind == "c" else np.float64
    return (np.full(1, np.nan),) * 2 if of_shape(c) else (c.got[c.index].astype(t), c.want[c.index].astype(t))


def ours_is(c, exact, may=None):
    """Our result is this, which the text's formula gives in double precision, within `may`, else as any two right ways:
    by element, or the whole where the peer's shape is another. NaN is any integer."""
    g = c.got[c.index]
    if g.shape != exact.shape:
        return False
    with np.errstate(all="ignore"):
        near = np.abs(g.astype(np.float64) - exact) <= may if may is not None else ~differences(
            c.step.name, c.step.name in EACH, [v for v in c.inputs if v is not None], g, exact.astype(g.dtype), c.terms)
    near |= np.isnan(exact) & (np.isnan(g.astype(np.float64)) | (not is_float(g.dtype)))
    return bool(near.all()) if of_shape(c) or c.peer == INFERENCE else near


def gives(c, peer, dtype):
    """What a peer makes of the same node in another precision, all floats that enter in this type, and how far each
    element of that may be off; None where it refuses."""
    from peers import PEERS                                     # who requests no peer needs none
    cast = lambda v: v.astype(dtype) if is_float(v.dtype) else v
    step = copy.deepcopy(c.step)
    for a in (a for n in step.nodes for a in n.attribute if a.HasField("t")):
        a.t.CopyFrom(numpy_helper.from_array(cast(numpy_helper.to_array(a.t))))
    arrays = {name: cast(v) for name, v in c.values.items()}
    model, names = model_of(c.versions, [step], arrays, set(), step.outputs)
    results = PEERS[peer](model, {name: arrays[name] for name in names})
    if results is None:
        return None
    return results[c.index], lambda: Terms(c.versions, step, arrays, set()).of(PEERS[peer], results, c.index)


def single(g):
    """Numbers of double precision that one of single precision holds: what was computed in it and then widened. Those
    of few digits, or near 0 where others cancelled, may be anybody's."""
    if g.dtype not in (np.float64, np.complex128):
        return np.zeros(g.shape, bool)
    held = lambda x, bits: x == np.ldexp(np.round(np.ldexp(np.frexp(x)[0], bits)), np.frexp(x)[1] - bits)
    of = lambda x: np.isfinite(x) & (np.abs(x) > 2.0**-20) & held(x, 24) & ~held(x, 12)
    with np.errstate(all="ignore"):
        return of(g.real) | of(g.imag) if g.dtype.kind == "c" else of(g)


def arbiter(peer, dtype):
    """A peer gives ours where the numbers that enter are of this type, another than theirs; and ours are not of less
    precision than their type."""
    def agrees(c):
        g = c.got[c.index]
        if not (is_float(g.dtype) or g.dtype.kind == "c") or all(v.dtype == dtype
                                                                 for v in c.values.values() if is_float(v.dtype)):
            return False
        its, terms = gives(c, peer, dtype) or (None, None)
        if step_of(dtype) > step_of(g.dtype) and c.step.name in EXACT:
            return False
        coarse = g.dtype if g.dtype.kind == "c" or step_of(g.dtype) > step_of(dtype) else np.dtype(dtype)
        off = None if its is None or is_float(its.dtype) != is_float(g.dtype) else differences(
            c.step.name, c.step.name in EACH, [v for v in c.inputs if v is not None], g.astype(coarse),
            its.astype(coarse), terms)
        if off is None:
            return False
        return not off.any() and not single(g).any() if of_shape(c) else ~off & ~single(g)
    return judging(agrees)


WITNESSES = [arbiter(ORT, np.float32), arbiter(REF, np.float64), arbiter(REF, np.float32)]


def witnessed(c, covers):
    """Of what a row covers, the elements that somebody else gives as we do."""
    g = c.got[c.index]
    if outvoted(c) or c.peer == INFERENCE:
        return covers & ~single(g) if covers.shape == g.shape else covers
    seen = False
    for agrees in WITNESSES:
        if np.any(covers & ~np.asarray(seen)):
            seen = seen | np.asarray(agrees(c))
    return covers & seen
