"""How far a result may be off because of the roundings of what enters: a peer computes it again with each number moved by
a few roundings, and each element's largest change says how much its own terms weigh. So a sum of numbers near 1 is held
to roundings of 1, whatever stands in the next row."""
import numpy as np

from compare import ROUNDINGS, ROUNDINGS_HALF, step_of
from draw import is_float, model_of

DRAWS = 6
MOVED = 4                       # roundings by which a number of 32 bits or more is moved; a narrower one by one


def moved(v, rng):
    if not is_float(v.dtype) or not v.size:
        return v
    much = step_of(v.dtype) * (MOVED if v.dtype.itemsize > 2 else 1)
    with np.errstate(all="ignore"):
        return (v.astype(np.float64) * (1 + much * rng.choice([-1.0, 1.0], v.shape))).astype(v.dtype)


class Terms:
    """Of one step and its values; run: what a peer makes of a model and a feed."""
    def __init__(self, versions, step, values, constants):
        self.versions, self.step, self.values, self.constants, self.known = versions, step, values, constants, {}

    def of(self, run, base, k):
        """For output k of a peer, which gave base: how far each element may be off."""
        if run not in self.known:
            self.known[run] = self.spread(run, base)
        return self.known[run][k]

    def spread(self, run, base):
        rng, out = np.random.default_rng(7), [np.zeros(a.shape) for a in base]
        for _ in range(DRAWS):
            values = {name: moved(v, rng) for name, v in self.values.items()}
            model, names = model_of(self.versions, [self.step], values, self.constants, self.step.outputs)
            again = run(model, {name: values[name] for name in names})
            if again is None:
                break
            for far, a, b in zip(out, base, again):
                if is_float(a.dtype) and isinstance(b, np.ndarray) and b.dtype == a.dtype and b.shape == a.shape:
                    with np.errstate(all="ignore"):
                        d = np.abs(a.astype(np.float64) - b.astype(np.float64))
                    np.maximum(far, np.where(np.isfinite(d), d, 0), out=far)
        narrow = lambda a: is_float(a.dtype) and a.dtype.itemsize <= 2
        return [far * (ROUNDINGS_HALF if narrow(a) else ROUNDINGS / MOVED) for far, a in zip(out, base)]
