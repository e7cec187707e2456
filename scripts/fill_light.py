#!/usr/bin/env python3
"""Gives the `light` models of the installed onnx package (real networks whose weights are all 0.02) seeded random
weights, an input and a reference output.

    fill_light.py OUT_DIR [NAME ...]         NAME: resnet50, vgg19, ...; all nine without one

OUT_DIR/light_NAME/ gets model.onnx, weights.bin (external data) and test_data_set_0/{input,output}_0.npy; the output is
onnxruntime's. A model that is there is left alone. Weights are drawn with the deviation that keeps every layer's output
near 1 (3 where a softmax follows), so that wrong arithmetic anywhere shows at the end. That deviation is found by
running: a layer's output is measured, its weights are scaled, and what that changes for the next few layers is
foreseen.
"""
import os, sys, zlib
import numpy as np, onnx
from onnx import numpy_helper

LAYERS = ("Conv", "Gemm")
ROUNDS, AT_ONCE = 30, 12


def light_folder():
    return os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


def make_inits(model, rng):
    """Replaces ConstantOfShape by arrays, drawn for the place where they are used. Returns {name: array}."""
    graph = model.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    constant = {n.output[0]: shapes[n.input[0]] for n in graph.node if n.op_type == "ConstantOfShape"}
    # some biases are still the trained ones: too large here
    constant.update({name: value.shape for name, value in shapes.items() if value.dtype == np.float32})
    alias = aliases(model, constant)
    arrays = {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            name = alias.get(name, name)
            if name in constant and name not in arrays and node.output[0] not in alias:
                arrays[name] = draw(node, place, tuple(constant[name]), rng)
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    del graph.node[:]
    graph.node.extend(kept)
    used = {name for n in kept for name in n.input}
    for field in (graph.initializer, graph.input):
        keep = [
            x for x in field
            if x.name in used and x.name not in arrays and not (field is graph.input and x.name in shapes)
        ]
        del field[:]
        field.extend(keep)
    return arrays


def aliases(model, weights):
    """Weights that are only seen through a Reshape or Unsqueeze: {its output: the weight}."""
    return {
        n.output[0]: n.input[0]
        for n in model.graph.node if n.op_type in ("Unsqueeze", "Reshape") and n.input[0] in weights
    }


def draw(node, place, shape, rng):
    x = rng.standard_normal(shape, dtype=np.float32)
    if node.op_type in LAYERS and place == 1:
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        inner = shape[0] if node.op_type == "Gemm" and not transposed else int(np.prod(shape[1:]))
        return x * np.float32(inner ** -0.5)
    if node.op_type == "BatchNormalization" and place == 4:
        return np.float32(1) + np.float32(0.2) * (rng.random(shape, dtype=np.float32) - np.float32(0.5))
    is_scale = (node.op_type == "BatchNormalization" and place == 1) or node.op_type == "Mul"
    return np.float32(1 if is_scale else 0) + np.float32(0.1) * x


def write(model, arrays, folder):
    """The model with its arrays in weights.bin."""
    at = 0
    names = {t.name for t in model.graph.initializer}
    with open(os.path.join(folder, "weights.bin"), "wb") as f:
        for name, array in arrays.items():
            at += -at % 64
            f.seek(at)
            f.write(array.tobytes())
            if name not in names:
                t = model.graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=array.shape,
                                                data_location=onnx.TensorProto.EXTERNAL)
                for key, value in (("location", "weights.bin"), ("offset", at), ("length", array.nbytes)):
                    t.external_data.add(key=key, value=str(value))
            at += array.nbytes
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())


def run(folder, feed, outputs=None):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    path = os.path.join(folder, "model.onnx")
    if outputs:
        model = onnx.load(path, load_external_data=False)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        path = os.path.join(folder, "probe.onnx")
        with open(path, "wb") as f:
            f.write(model.SerializeToString())
    try:
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)
    finally:
        if outputs:
            os.remove(path)


def scale_layers(model, arrays, folder, feed):
    """One round: the first few layers whose output is off get their weights scaled, so that it has the wanted deviation
    once the layers before have theirs. Returns how many were off."""
    layers = [n for n in model.graph.node if n.op_type in LAYERS]
    deviation = {n.output[0]: float(y.std()) for n, y in zip(layers, run(folder, feed, [n.output[0] for n in layers]))}
    before_softmax = {n.input[0] for n in model.graph.node if n.op_type == "Softmax"}
    alias = aliases(model, arrays)
    off = 0
    change = {name: 1.0 for name in feed}             # what a value will be multiplied with
    for n in model.graph.node:
        known = [change[i] for i in n.input if i in change]
        change[n.output[0]] = float(np.mean(known)) if known else 1.0
        if n.op_type not in LAYERS:
            continue
        factor = (3.0 if n.output[0] in before_softmax else 1.0) / deviation[n.output[0]]
        off += not 0.8 < factor < 1.25
        if off <= AT_ONCE and (off or change[n.input[0]] != 1):
            arrays[alias.get(n.input[1], n.input[1])] *= np.float32(factor / change[n.input[0]])
            change[n.output[0]] = factor
    write(model, arrays, folder)
    return off


def fill(name, out):
    folder = os.path.join(out, "light_" + name)
    data = os.path.join(folder, "test_data_set_0")
    if os.path.exists(os.path.join(data, "output_0.npy")):
        return
    os.makedirs(data, exist_ok=True)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    model = onnx.load(os.path.join(light_folder(), f"light_{name}.onnx"))
    model.ir_version = max(model.ir_version, 4)       # from here on initializers need not be inputs
    arrays = make_inits(model, rng)
    x = model.graph.input[0]
    feed = {x.name: rng.standard_normal([d.dim_value for d in x.type.tensor_type.shape.dim], dtype=np.float32)}
    write(model, arrays, folder)
    for _ in range(ROUNDS):
        if scale_layers(model, arrays, folder, feed) == 0:
            break
    y = run(folder, feed)[0]
    np.save(os.path.join(data, "input_0.npy"), feed[x.name])
    np.save(os.path.join(data, "output_0.npy"), y)
    print(
        f"light_{name}: {len(model.graph.node)} nodes, {sum(a.nbytes for a in arrays.values()) / 1e6:.0f} MB of weights, largest output {y.max():.3f}",
        flush=True)


if __name__ == "__main__":
    names = sys.argv[2:] or sorted(f[6:-5] for f in os.listdir(light_folder()) if f.endswith(".onnx"))
    for each in names:
        fill(each, sys.argv[1])
