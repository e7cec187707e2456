"""Models divided among devices of the CPU, by samples and by weights, give what one device gives: alone, mapped over
samples (SessionOptions.batch), and from several threads at once. What cannot be divided is refused by its name."""
import os, sys, tempfile, threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh

import tgrun

RNG = np.random.default_rng(3)
HIDDEN, HEADS, TOKENS = 64, 4, 24


def weight(name, *shape):
    return nh.from_array((RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32), name)


def save(folder, name, nodes, inputs, init, output="y"):
    graph = h.make_graph(nodes, name, inputs, [h.make_tensor_value_info(output, 1, None)], init)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


def transformer(folder, rows):
    """One block: attention of four heads, two layer normalisations, a feed-forward network."""
    node, init = h.make_node, [
        weight("qkv", HIDDEN, 3 * HIDDEN), weight("out", HIDDEN, HIDDEN), weight("up", HIDDEN, 4 * HIDDEN),
        weight("down", 4 * HIDDEN, HIDDEN), nh.from_array(np.ones(HIDDEN, np.float32), "scale"),
        nh.from_array(np.array([0, 0, HEADS, HIDDEN // HEADS]), "split"), nh.from_array(np.array([0, 0, HIDDEN]), "merge"),
        nh.from_array(np.float32(0.25), "quarter")]
    nodes = [node("LayerNormalization", ["x", "scale"], ["n"]), node("MatMul", ["n", "qkv"], ["a"]),
             node("Split", ["a"], ["q0", "k0", "v0"], axis=-1)]
    for name in "qkv":
        nodes += [node("Reshape", [name + "0", "split"], [name + "1"]),
                  node("Transpose", [name + "1"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [node("MatMul", ["q", "k"], ["s0"]), node("Mul", ["s0", "quarter"], ["s1"]), node("Softmax", ["s1"], ["p"]),
              node("MatMul", ["p", "v"], ["c0"]), node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
              node("Reshape", ["c1", "merge"], ["c"]), node("MatMul", ["c", "out"], ["o"]), node("Add", ["o", "x"], ["r"]),
              node("LayerNormalization", ["r", "scale"], ["m"]), node("MatMul", ["m", "up"], ["u0"]),
              node("Relu", ["u0"], ["u"]), node("MatMul", ["u", "down"], ["d"]), node("Add", ["d", "r"], ["y"])]
    return save(folder, f"transformer{rows}", nodes, [h.make_tensor_value_info("x", 1, [rows, TOKENS, HIDDEN])], init)


def network(folder, rows):
    """Convolutions, grouped ones too, a pool, a product."""
    node, init = h.make_node, [weight("w0", 16, 3, 3, 3), weight("w1", 16, 4, 3, 3), weight("w2", 32, 16, 1, 1),
                               weight("w3", 32, 10)]
    nodes = [node("Conv", ["x", "w0"], ["a0"], pads=[1] * 4, strides=[2, 2]), node("Relu", ["a0"], ["a"]),
             node("Conv", ["a", "w1"], ["b0"], pads=[1] * 4, group=4), node("Sigmoid", ["b0"], ["b"]),
             node("Concat", ["a", "b"], ["j"], axis=2), node("Conv", ["j", "w2"], ["c"]),
             node("GlobalAveragePool", ["c"], ["g0"]), node("Flatten", ["g0"], ["g"]), node("MatMul", ["g", "w3"], ["y"])]
    return save(folder, f"network{rows}", nodes, [h.make_tensor_value_info("x", 1, [rows, 3, 20, 20])], init)


def session(path, devices="", **options):
    o = tgrun.SessionOptions()
    for name, value in options.items():
        setattr(o, name, value)
    return tgrun.InferenceSession(path, o, providers=[("CPUExecutionProvider", {"device_id": devices} if devices else {})])


def near(what, got, want):
    assert got.shape == want.shape, (what, got.shape, want.shape)
    error = np.abs(got - want).max() / np.sqrt((want.astype(np.float64)**2).mean())
    assert error < 1e-5, f"{what}: {error}"


def of_rows(make, folder):
    path = make(folder, 4)
    x = RNG.standard_normal(session(path).get_inputs()[0].shape).astype(np.float32)
    want = session(path).run(None, {"x": x})[0]
    for devices in ("0-1", "0-2", "0-3"):
        for shard in ("auto", "weights") + (("batch",) if devices != "0-2" else ()):
            near(f"{path} over {devices} by {shard}", session(path, devices, shard=shard).run(None, {"x": x})[0], want)


def of_samples(make, folder):
    """Exported for one, run on six."""
    path = make(folder, 1)
    x = RNG.standard_normal([6] + session(path).get_inputs()[0].shape[1:]).astype(np.float32)
    want = np.concatenate([session(path).run(None, {"x": x[k:k + 1]})[0] for k in range(6)])
    for devices in ("0-1", "0-2"):
        near(f"{path} of 6 over {devices}", session(path, devices, batch=6).run(None, {"x": x})[0], want)


def of_sizes(folder):
    """The number of tokens varies from run to run: one program for the first, one for all others."""
    path, tokens = transformer(folder, 1), "tokens"
    m = onnx.load(path)
    m.graph.input[0].type.tensor_type.shape.dim[1].Clear()
    m.graph.input[0].type.tensor_type.shape.dim[1].dim_param = tokens
    path = path.replace(".onnx", "_free.onnx")
    onnx.save(m, path)
    alone = session(path)
    for devices in ("0-1", "0-2"):
        several = session(path, devices, shard="weights")
        for n in (7, 3, 12, 5, 24, 1):
            x = RNG.standard_normal((1, n, HIDDEN)).astype(np.float32)
            near(f"{n} tokens over {devices}", several.run(None, {"x": x})[0], alone.run(None, {"x": x})[0])
        programs = several.get_stats()["programs"]
        assert programs == 2, f"{programs} programs"


def sharded(path, devices, specs, name="two", stage=None):
    """The model with a configuration of so many devices. specs: {output of a node: {tensor: axis, None (whole on each),
    or a list of devices}}."""
    model = onnx.load(path)
    model.ir_version = 11
    model.configuration.add(name=name, num_devices=devices)
    for n in model.graph.node:
        for tensor, axis in specs.get(n.output[0], {}).items():
            spec = n.device_configurations.add(configuration_id=name).sharding_spec.add(tensor_name=tensor)
            spec.device.extend(axis if isinstance(axis, list) else range(devices))
            if isinstance(axis, int):
                spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=devices)
    out = path.replace(".onnx", f"_{devices}.onnx")
    onnx.save(model, out)
    return out


MEGATRON = {"n": {"x": None}, "a": {"qkv": 1}, "o": {"out": 0, "o": None}, "u0": {"up": 1, "u0": -1}, "d": {"down": 0, "d": None}}


def of_the_model(folder):
    """As its own device_configurations say: columns and rows of weights, the batch of a network, two devices in turn."""
    for make, specs, devices in ((transformer, MEGATRON, 2), (transformer, MEGATRON, 4),
                                 (network, {"a0": {"x": 0}, "g0": {"g0": None}}, 2),
                                 (network, {"a0": {"x": [0]}, "b0": {"a": [1], "b0": [1]}, "y": {"g": [0]}}, 2)):
        plain = make(folder, 4)
        path = sharded(plain, devices, specs)
        x = RNG.standard_normal(session(plain).get_inputs()[0].shape).astype(np.float32)
        want = session(plain).run(None, {"x": x})[0]
        near(f"{path} on one device", session(path).run(None, {"x": x})[0], want)
        for shard in ("auto", "model", "weights"):
            near(f"{path} by {shard}", session(path, f"0-{devices - 1}", shard=shard).run(None, {"x": x})[0], want)
        refused("no configuration", lambda: session(path, "0-2", shard="model"), "no configuration of 3 devices")
    plain, x = transformer(folder, 1), np.ones([1, TOKENS, HIDDEN], np.float32)
    for what, specs, *needles in (
        ("an unknown tensor", {"a": {"up": 1}}, "'up' is no tensor of the node"),
        ("an axis", {"a": {"qkv": 2}}, "'qkv': axis 2 of rank 2"),
        ("a size", {"a": {"a": 0}}, "axis 0 of 1 elements cannot be divided among 2"),
        ("a device", {"a": {"qkv": [2]}}, "device 2 of 2"), ("their order", {"a": {"qkv": [1, 0]}}, "some of the devices")):
        path = sharded(plain, 2, specs)
        refused(what, lambda: session(path, "0-1").run(None, {"x": x}), "sharding_spec", *needles)


def of_threads(folder):
    path = transformer(folder, 1)
    s = session(path, "0-1", shard="weights")
    x = [RNG.standard_normal([1, TOKENS, HIDDEN]).astype(np.float32) for _ in range(4)]
    want, bad = [session(path).run(None, {"x": v})[0] for v in x], []

    def work(k):
        try:
            for _ in range(20):
                near(f"thread {k}", s.run(None, {"x": x[k]})[0], want[k])
        except Exception as e:
            bad.append(e)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not bad, bad[0]


def refused(what, of, *needles):
    try:
        of()
    except Exception as e:
        assert all(n in str(e) for n in needles), f"{what}: {e}"
    else:
        raise AssertionError(f"{what} is not refused")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for make in (transformer, network):
            of_rows(make, folder)
            of_samples(make, folder)
        of_sizes(folder)
        of_the_model(folder)
        of_threads(folder)
        path, x = network(folder, 1), np.ones([1, 3, 20, 20], np.float32)
        refused("one sample", lambda: session(path, "0-1", shard="batch").run(None, {"x": x}),
                "axis 0 of input 'x' is 1, which cannot be divided among 2 devices")
        refused("a way that is none", lambda: session(path, "0-1", shard="rows"), "shard 'rows' is not known")
        refused("a single device", lambda: session(path, shard="batch"), "device 'cpu' is one")
    print("a transformer and a convolutional network give on 2 to 4 devices what they give on one")


if __name__ == "__main__":
    sys.exit(main())
