"""Random rows for test_against_ort.py: operators with many attributes, drawn so that their combinations meet. The seed
is fixed; COUNT of each kind."""
import numpy as np

COUNT = {"recurrent": 45, "resize": 60, "roi_align": 16, "scatter": 30, "quantised": 40}
ACTIVATIONS = {
    "Relu": "", "Tanh": "", "Sigmoid": "", "Affine": "ab", "LeakyRelu": "a", "ThresholdedRelu": "a", "ScaledTanh": "ab",
    "HardSigmoid": "ab", "Elu": "a", "Softsign": "", "Softplus": ""
}


class Rows:
    def __init__(self, const, seed=11):
        self.rng = np.random.default_rng(seed)
        self.const = const

    def pick(self, *values):
        return values[self.rng.integers(len(values))]

    def maybe(self, value, p=0.5):
        return value if self.rng.random() < p else None

    def f(self, *shape, scale=0.6):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def q(self, unsigned, *shape):
        low, kind = (0, np.uint8) if unsigned else (-128, np.int8)
        return self.rng.integers(low, low + 256, shape).astype(kind)

    def step(self, *shape):
        return (self.rng.random(shape) * 0.05 + 0.01).astype(np.float32)

    def activations(self, count, dirs):
        """Gates stay between 0 and 1: others make states grow from step to step, and rounding errors with them."""
        gate = ("Sigmoid", "HardSigmoid") if count > 1 else tuple(ACTIVATIONS)
        names = [self.pick(*(ACTIVATIONS if k % count else gate)) for k in range(count * dirs)]
        attrs = {"activations": names}
        for letter, key in (("a", "activation_alpha"), ("b", "activation_beta")):
            n = sum(letter in ACTIVATIONS[k] for k in names)
            if n:
                attrs[key] = [float(v) for v in self.rng.random(n)]
        return attrs

    def recurrent(self):
        op, gates, functions = self.pick(("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1))
        direction = self.pick("forward", "reverse", "bidirectional")
        dirs = 2 if direction == "bidirectional" else 1
        steps, batch, size, hidden = self.pick(1, 3, 7, 11, 19), self.pick(1, 2, 5), self.pick(1, 3,
                                                                                               6), self.pick(1, 4, 7)
        attrs = {"hidden_size": hidden, "direction": direction}
        inputs = [
            self.f(steps, batch, size),
            self.const(self.f(dirs, gates * hidden, size)),
            self.const(self.f(dirs, gates * hidden, hidden)),
            self.maybe(self.const(self.f(dirs, 2 * gates * hidden))),
            self.maybe(self.rng.integers(1, steps + 1, batch).astype(np.int32)),
            self.maybe(self.f(dirs, batch, hidden))
        ]
        if op == "LSTM":
            inputs += [self.maybe(self.f(dirs, batch, hidden)), self.maybe(self.const(self.f(dirs, 3 * hidden)))]
            attrs["input_forget"] = int(self.rng.random() < 0.2)
        if op == "GRU":
            attrs["linear_before_reset"] = int(self.rng.random() < 0.5)
        if self.rng.random() < 0.3:
            attrs["clip"] = 0.7
        if self.rng.random() < 0.5:
            attrs.update(self.activations(functions, dirs))
        while inputs[-1] is None:
            inputs.pop()
        return (op, 14, inputs, attrs, 3 if op == "LSTM" else 2)

    def resize(self):
        opset, mode = self.pick(11, 13, 18, 19), self.pick("nearest", "linear", "cubic")
        places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"
                  ] + (["half_pixel_symmetric"] if opset >= 19 else [])
        attrs = {
            "mode": mode, "coordinate_transformation_mode": self.pick(*places), "nearest_mode":
            self.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        }
        if mode == "cubic":
            attrs["exclude_outside"] = int(self.rng.random() < 0.4)
            attrs["cubic_coeff_a"] = self.pick(-0.75, -0.5)
        if opset >= 18 and mode != "nearest" and self.rng.random() < 0.4:
            attrs["antialias"] = 1
        # there onnxruntime rounds the size before it divides
        none, whole = self.const(np.zeros(0, np.float32)), attrs["coordinate_transformation_mode"] == "align_corners"
        inputs = [self.f(1, 2, self.pick(1, 3, 5, 8), self.pick(2, 4, 7)), none]
        # in float32 a place between two pixels falls to either side, but for exact scales
        if mode == "nearest":
            inputs.append(self.const(np.array([1, 1, self.pick(0.5, 2, 4), self.pick(0.5, 1, 2, 8)], np.float32)))
        elif not whole and self.rng.random() < 0.5:
            inputs.append(
                self.const(
                    np.array([1, 1, self.pick(0.5, 0.6, 1.5, 2, 2.3, 3),
                              self.pick(0.5, 1, 1.7, 2, 4)], np.float32)))
        else:
            inputs += [
                none if opset < 13 else None,
                self.const(np.array(
                    [1, 2, self.pick(1, 2, 4, 9, 16), self.pick(1, 3, 4, 11)], np.int64))
            ]
        return ("Resize", opset, inputs, attrs)

    def roi_align(self):
        opset, regions = self.pick(10, 16), self.pick(1, 4, 9)
        attrs = {
            "mode": self.pick("avg", "max"), "output_height": self.pick(1, 2, 3), "output_width": self.pick(1, 4),
            "sampling_ratio": self.pick(0, 1, 2, 3), "spatial_scale": self.pick(0.25, 0.5, 1.0)
        }
        if opset == 16:
            attrs["coordinate_transformation_mode"] = self.pick("half_pixel", "output_half_pixel")
        boxes = np.sort(self.rng.random((regions, 2, 2)) * 30 - 2, axis=1).reshape(regions, 4).astype(np.float32)
        return ("RoiAlign", opset, [self.f(2, 3, 9, 11), boxes, self.rng.integers(0, 2, regions)], attrs)

    def scatter(self):
        how, kind = self.pick("none", "add", "mul", "max", "min"), self.pick(np.float32, np.int64)
        x = self.f(5, 4, 3, scale=5).astype(kind)
        if self.rng.random() < 0.5:
            rows, depth = self.pick(1, 3, 20), self.pick(1, 2, 3)
            at = np.stack([self.rng.integers(-x.shape[k], x.shape[k], rows) for k in range(depth)], -1)
            if how == "none":                                        # which of equal indices counts is not said
                at = np.unique(at % np.array(x.shape[:depth]), axis=0)
            op, attrs, updates = "ScatterND", {"reduction": how}, self.f(len(at), *x.shape[depth:], scale=5)
        else:
            axis = self.pick(0, 1, 2, -1)
            at = self.rng.integers(-x.shape[axis], x.shape[axis], [self.rng.integers(1, n + 1) for n in x.shape])
            op, attrs, updates = "ScatterElements", {"reduction": how, "axis": axis}, self.f(*at.shape, scale=5)
        return (op, 18, [x, self.pick(at, self.const(at)), updates.astype(kind)], attrs)

    def quantised(self):
        kind, unsigned, many, c = self.pick("ql", "dq", "ci", "mi", "qc", "qm",
                                            "dy"), self.rng.random() < 0.6, self.rng.random() < 0.5, self.const
        scale, zero = (self.step(3), self.q(unsigned, 3)) if many else (self.step(), self.q(unsigned))
        if kind == "ql":
            return ("QuantizeLinear", 13, [self.f(2, 3, 4, scale=3), c(scale), c(zero)], {"axis": 1})
        if kind == "dq":
            return ("DequantizeLinear", 13, [self.q(unsigned, 2, 3, 4), c(scale), c(zero)], {"axis": 1})
        if kind == "ci":
            return ("ConvInteger", 10,
                    [self.q(True, 1, 4, 6, 5),
                     c(self.q(unsigned, 6, 2, 3, 2)),
                     c(self.q(True)),
                     c(self.q(unsigned))], {"group": 2, "pads": [1, 0, 1, 1], "strides": [1, 2]})
        if kind == "mi":
            return ("MatMulInteger", 10, [
                self.q(True, 2, 3, 5),
                c(self.q(unsigned, 5, 4)),
                c(self.q(True)),
                c(self.q(unsigned, 4) if many else self.q(unsigned))
            ], {})
        if kind == "qc":
            weights = [c(self.q(False, 6, 4, 3, 3)),
                       c(self.step(6)), c(np.zeros(6, np.int8))] if many else [
                           c(self.q(unsigned, 6, 4, 3, 3)),
                           c(self.step()), c(self.q(unsigned))
                       ]
            return ("QLinearConv", 10, [
                self.q(True, 1, 4, 6, 5),
                c(self.step()),
                c(self.q(True)), *weights,
                c(np.float32(self.rng.random() * 3 + 0.5)),
                c(self.q(True)),
                c(self.rng.integers(-1000, 1000, 6).astype(np.int32))
            ], {"auto_pad": "SAME_UPPER", "strides": [2, 1]})
        if kind == "qm":
            return ("QLinearMatMul", 10, [
                self.q(True, 2, 3, 5),
                c(self.step()),
                c(self.q(True)),
                c(self.q(unsigned, 2, 5, 4)),
                c(self.step()),
                c(self.q(unsigned)),
                c(np.float32(self.rng.random() * 2 + 0.3)),
                c(self.q(True))
            ], {})
        return ("DynamicQuantizeLinear", 11, [self.f(3, 5, scale=self.pick(0, 1, 8)) + np.float32(self.pick(0, -3, 5))],
                {}, 3)


def random_cases(const):
    rows = Rows(const)
    return [getattr(rows, kind)() for kind, count in COUNT.items() for _ in range(count)]
