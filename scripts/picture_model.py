#!/usr/bin/env python3
"""Writes a C array with the ONNX model that turns a picture file into a network's input (bench/image.c): bytes u8[n],
sizes i64[2] (height, width), scale and shift f32[3] -> f32[1, 3, height, width]. The picture is resized linearly with
antialiasing, as image libraries do, then multiplied and shifted by channel.

    picture_model.py FILE.h
"""
import sys

from onnx import TensorProto as T, helper as h


def model():
    shape3 = h.make_node("Constant", [], ["by_channel"], value_ints=[1, 3, 1, 1])
    nodes = [
        shape3,
        h.make_node("ImageDecoder", ["bytes"], ["pixels"], pixel_format="RGB"),
        h.make_node("Cast", ["pixels"], ["numbers"], to=T.FLOAT),
        h.make_node("Transpose", ["numbers"], ["planes"], perm=[2, 0, 1]),
        h.make_node("Constant", [], ["zero"], value_ints=[0]),
        h.make_node("Unsqueeze", ["planes", "zero"], ["batch"]),
        h.make_node("Resize", ["batch", "", "", "size"], ["sized"], mode="linear", antialias=1, axes=[2, 3], coordinate_transformation_mode="half_pixel"),
        h.make_node("Reshape", ["scale", "by_channel"], ["factors"]),
        h.make_node("Reshape", ["shift", "by_channel"], ["terms"]),
        h.make_node("Mul", ["sized", "factors"], ["scaled"]),
        h.make_node("Add", ["scaled", "terms"], ["y"]),
    ]
    inputs = [h.make_tensor_value_info("bytes", T.UINT8, ["n"]), h.make_tensor_value_info("size", T.INT64, [2])]
    inputs += [h.make_tensor_value_info(name, T.FLOAT, [3]) for name in ("scale", "shift")]
    graph = h.make_graph(nodes, "picture", inputs, [h.make_tensor_value_info("y", T.FLOAT, [1, 3, None, None])])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9).SerializeToString()


def main(path):
    numbers = ",".join(str(b) for b in model())
    with open(path, "w") as f:
        f.write(f"static const unsigned char picture_model[] = {{ {numbers} }};\n")


if __name__ == "__main__":
    main(sys.argv[1])
