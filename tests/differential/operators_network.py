"""Operators of ai.onnx that networks are made of: products, windows over space, normalisations, quantised forms,
pictures, recurrences, losses, signals."""
import numpy as np
from onnx import TensorProto, helper

from draw import PREVIEW, Step, Unfit, is_float
from recurrent import WITH_ALPHA, WITH_BETA
from table import operator, proto_type


# ---- products ----

@operator("MatMul", "MatMulInteger")
def matmul(d, op):
    t = d.type(op)
    x = d.tensor([t], (1, 4), calm=True)
    v = d.values[x]
    k, n = v.shape[-1], d.size()
    batch = [b if d.chance(0.7) else 1 for b in v.shape[:-2]]
    shape = (k,) if d.chance(0.15) else (*batch[d.int(0, len(batch)):], k, n)
    if op == "MatMul":
        return d.step(op, [x, d.new(t, shape, calm=True)])
    u = d.type(op, 1)
    return d.step(op, [x, d.new(u, shape), d.some(d.new(t, ())), d.some(d.new(u, ()))])


@operator("Gemm")
def gemm(d, op):
    t, a, b = d.type(op), d.int(0, 1), d.int(0, 1)
    x = d.tensor([t], (2, 2), calm=True)
    m, k = d.values[x].shape[::-1] if a else d.values[x].shape
    n = d.size()
    c = d.new(t, d.pick((m, n), (n,), (1, n), (m, 1), (), (1,)), calm=True)
    scale = lambda: d.some(d.pick(0.5, 2.0, -1.0)) if is_float(t) else None
    return d.step(op, [x, d.new(t, (n, k) if b else (k, n), calm=True),
                       d.some(c) if d.opset >= 11 else c], transA=a or d.some(0), transB=b or d.some(0), alpha=scale(),
                  beta=scale())


@operator("Einsum")
def einsum(d, op):
    t = d.type(op)
    sizes = dict(zip("ijkb", (d.pick(1, 2, 3, 5) for _ in range(4))))
    text = d.pick("ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "ii->i", "i,j->ij", "ij,ij->", "bij,kj->bki", "ij,jk",
                  "...ij->...ji", "bi,ib->b", "i,i", "ij,jk,ki->", "ii", "...i,...i->...", "bij->bj")
    terms = text.split("->")[0].split(",")
    return d.step(op, [d.new(t, [sizes[c] for c in term.replace("...", "b")], calm=True) for term in terms],
                  equation=text)


@operator("Det")
def det(d, op):
    n = d.pick(1, 2, 3, 4)
    return d.step(op, [d.new(d.type(op), (*d.shape(0, 2), n, n), calm=True)])


# ---- windows over space ----

def spatial(d, dims, op, pooled=False):
    """Kernel, and attributes of a convolution or pool over `dims` dimensions; `least` inputs that give a result."""
    kernel = [d.pick(1, 2, 3) for _ in range(dims)]
    strides = d.some([d.pick(1, 2, 3) for _ in range(dims)])
    dilations = d.some([d.pick(1, 2) for _ in range(dims)], 0.3)
    attributes = dict(strides=strides, dilations=dilations)
    way = d.pick("none", "pads", "auto")
    span = [(k - 1) * (dilations or [1] * dims)[j] for j, k in enumerate(kernel)]
    if way == "pads":
        attributes["pads"] = [d.int(0, min(2, k - 1 if pooled else 2)) for k in kernel * 2]
    if way == "auto":
        attributes["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    size = [s + d.pick(1, 2, 3, 5) for s in span]
    return kernel, size, attributes


@operator("Conv", "ConvInteger")
def conv(d, op):
    t, dims, group = d.type(op), d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, size, attributes = spatial(d, dims, op)
    c, m = group * d.pick(1, 2, 3), group * d.pick(1, 2)
    x = d.new(t, (d.pick(1, 1, 2, 0) if d.chance(0.1) else 1, c, *size), calm=True)
    u = d.type(op, 1) if op == "ConvInteger" else t
    w = d.new(u, (m, c // group, *kernel), calm=True)
    more = [d.some(d.new(t, ())), d.some(d.new(u, ()))] if op == "ConvInteger" else [d.some(d.new(t, (m,), calm=True))]
    return d.step(op, [x, w] + more, group=group if group > 1 else d.some(1), kernel_shape=d.some(kernel), **attributes)


@operator("ConvTranspose")
def conv_transpose(d, op):
    t, dims, group = d.type(op), d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, size, attributes = spatial(d, dims, op)
    c, m = group * d.pick(1, 2), d.pick(1, 2)
    strides, span = attributes["strides"] or [1] * dims, [
        (k - 1) * n + 1 for k, n in zip(kernel, attributes["dilations"] or [1] * dims)
    ]
    extra = d.some([d.int(0, s - 1) for s in strides], 0.3)
    if attributes.get("auto_pad", "VALID") not in ("VALID", "NOTSET") or "pads" not in attributes and d.chance(0.2):
        attributes["output_shape"] = d.some([
            s * (n - 1) + k + e - d.int(0, min(1, k - 1))
            for s, n, k, e in zip(strides, size, span, extra or [0] * dims)
        ], 0.3)
    return d.step(op, [
        d.new(t, (d.pick(1, 2), c, *size), calm=True),
        d.new(t, (c, m, *kernel), calm=True),
        d.some(d.new(t, (group * m, ), calm=True))
    ], group=group if group > 1 else d.some(1), kernel_shape=d.some(kernel), output_padding=extra, **attributes)


@operator("AveragePool", "MaxPool", "LpPool")
def pool(d, op):
    kernel, size, attributes = spatial(d, d.pick(1, 2, 2, 3), op, pooled=True)
    if d.opset < {"AveragePool": 19, "MaxPool": 10, "LpPool": 18}[op]:
        attributes["dilations"] = None
    if d.opset >= {"AveragePool": 10, "MaxPool": 10, "LpPool": 18}[op]:
        attributes["ceil_mode"] = d.some(d.int(0, 1))
    if op == "AveragePool":
        attributes["count_include_pad"] = d.some(d.int(0, 1))
    if op == "LpPool":
        attributes["p"] = d.some(d.int(1, 3))
    outputs = 1
    if op == "MaxPool" and d.opset >= 8 and d.chance(0.3):
        outputs, attributes["storage_order"] = 2, d.some(d.int(0, 1))
    t = d.type(op)
    x = d.new(t, (d.pick(1, 2), d.pick(1, 3), *size), calm=True)
    if outputs == 2:                                            # no two equal: which of them is not said
        d.values[x] = d.rng.permutation(d.values[x].size).astype(t).reshape(
            d.values[x].shape) if d.values[x].size < 120 else d.values[x]
    return d.step(op, [x], outputs, kernel_shape=kernel, **attributes)


@operator("MaxUnpool")
def max_unpool(d, op):
    t = d.type(op)
    x = d.new(t, (1, d.pick(1, 2), 2 * d.pick(1, 2), 4), calm=True)
    down = d.step("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    up = d.node(op, [
        *down.outputs,
        d.some(d.index([*d.values[x].shape[:2], d.values[x].shape[2] + d.int(0, 1), 4 + d.int(0, 1)]), 0.3)
    ], kernel_shape=[2, 2], strides=[2, 2], pads=d.some([0, 0, 0, 0]))
    return Step([down.nodes[0], up], list(up.output))


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d, op):
    return d.step(op, [
        d.tensor(d.type(op), (4, 4) if op == "GlobalMaxPool" and d.opset > 21 else
                 (3, 5), calm=True, fits=lambda v: v.size)
    ], p=d.some(d.int(1, 3)) if op == "GlobalLpPool" else None)


@operator("LRN")
def lrn(d, op):
    return d.step(op, [d.tensor(d.type(op), (3, 4), calm=True)], size=d.pick(1, 3, 5), alpha=d.some(0.1),
                  beta=d.some(0.5), bias=d.some(2.0))


@operator("Col2Im")
def col2im(d, op):
    kernel, c = [d.pick(1, 2), d.pick(1, 3)], d.pick(1, 2)
    strides, dilations, pads = d.some([d.pick(1, 2),
                                       d.pick(1,
                                              2)]), d.some([d.pick(1, 2)] * 2), d.some([d.int(0, 1) for _ in range(4)])
    size = [d.pick(5, 6), d.pick(7, 8)]
    blocks = 1
    for k in range(2):
        p = (pads[k] + pads[k + 2]) if pads else 0
        blocks *= (size[k] + p - (dilations or [1, 1])[k] * (kernel[k] - 1) - 1) // (strides or [1, 1])[k] + 1
    x = d.new(d.type(op, among=lambda t: t not in (object, bool)), (d.pick(1, 2), c * kernel[0] * kernel[1], blocks),
              calm=True)
    return d.step(op, [x, d.index(size), d.index(kernel)], strides=strides, dilations=dilations, pads=pads)


@operator("DeformConv")
def deform_conv(d, op):
    t, group, parts = d.type(op), d.pick(1, 2), d.pick(1, 2)
    c, m = 2 * d.pick(1, 2), 2 * d.pick(1, 2)
    kernel, size, attributes = spatial(d, 2, op)
    attributes.pop("auto_pad", None)
    pads, strides, dilations = attributes.get(
        "pads") or [0] * 4, attributes["strides"] or [1] * 2, attributes["dilations"] or [1] * 2
    out = [(n + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
           for k, n in enumerate(size)]
    spots = kernel[0] * kernel[1]
    inputs = [
        d.new(t, (1, c, *size), calm=True),
        d.new(t, (m, c // group, *kernel), calm=True),
        d.new(t, (1, parts * 2 * spots, *out), calm=True),
        d.some(d.new(t, (m, ), calm=True)),
        d.some(d.new(t, (1, parts * spots, *out), 0, 1))
    ]
    return d.step(op, inputs, group=group if group > 1 else d.some(1), offset_group=parts if parts > 1 else d.some(1),
                  kernel_shape=d.some(kernel), **attributes)


# ---- normalisations ----

@operator("BatchNormalization")
def batch_normalization(d, op):
    t, training = d.type(op), d.opset >= 14 and d.chance(0.3)
    x = d.tensor([t], (2, 5), calm=True, fits=lambda v: v.size or not training)
    c = (d.values[x].shape[1],)
    inputs = [x, d.new(t, c, 0.5, 1.5), d.new(t, c, calm=True), d.new(t, c, calm=True), d.new(t, c, 0.5, 1.5)]
    return d.step(op, inputs, 3 if training else 1, epsilon=d.some(1e-2), momentum=d.some(0.5),
                  training_mode=1 if training else d.some(0) if d.opset >= 14 else None)


@operator("InstanceNormalization", "GroupNormalization")
def instance_normalization(d, op):
    t, groups = d.type(op), d.pick(1, 2, 3)
    c = groups * d.pick(1, 2) if op == "GroupNormalization" else d.pick(1, 2, 3)
    n = groups if op == "GroupNormalization" and d.opset < 21 else c
    x = d.new(t, (d.pick(1, 2), c, d.pick(3, 5), d.pick(2, 7)), calm=True)
    return d.step(op, [x, d.new(t, (n, ), calm=True), d.new(t, (n, ), calm=True)], epsilon=d.some(1e-2),
                  num_groups=groups if op == "GroupNormalization" else None,
                  stash_type=d.some(1, 0.2) if op == "GroupNormalization" and d.opset >= 21 else None)


@operator("LayerNormalization", "RMSNormalization")
def layer_normalization(d, op):
    t = d.type(op)
    x = d.tensor([t], (1, 4), calm=True, fits=lambda v: v.size)
    v = d.values[x]
    axis = d.axis(v.ndim)
    shape = v.shape[axis:] if d.chance(0.8) else [1 if d.chance() else n for n in v.shape[axis:]]
    scale = d.new(t, shape, calm=True)
    more = [d.some(d.new(t, shape, calm=True))] if op == "LayerNormalization" else []
    outputs = d.pick(1, 1, 2, 3) if op == "LayerNormalization" else 1
    return d.step(op, [x, scale] + more, outputs, axis=axis if axis != -1 else d.some(-1), epsilon=d.some(1e-2),
                  stash_type=d.some(1, 0.2))


# ---- quantised ----

@operator("QuantizeLinear")
def quantize(d, op):
    t, to = d.type(op), d.pick(*d.types(op, 0, output=True))
    x = d.tensor([t], (0, 4), calm=True)
    axis, block, shape = blocked(d, d.values[x])
    scale_type = t if is_float(t) and 19 <= d.opset < 23 else np.dtype(
        d.pick(*[k for k in d.types(op, 1) if is_float(k)]) if d.opset >= 23 else np.float32)
    if 19 <= d.opset < 23 and not is_float(t):                  # of one type with the scale, which is no whole number
        raise Unfit
    precision = d.some(TensorProto.FLOAT, 0.3) if d.opset >= 23 else None
    zero = np.zeros(shape, to) if is_float(to) or to == np.int32 else d.array(to, shape)
    named = d.opset >= 21 and d.chance(0.3)
    inputs = [
        x,
        d.new(scale_type, shape, 0.05, 1.0),
        d.add(zero) if to != np.uint8 and not named or d.chance(0.5) else None
    ]
    return d.step(op, inputs, axis=axis, block_size=block, output_dtype=proto_type(to) if named else None,
                  precision=precision, saturate=d.some(d.int(0, 1)) if is_float(to) and d.opset >= 19 else None)


@operator("DequantizeLinear")
def dequantize(d, op):
    t = d.type(op)
    x = d.tensor([t], (0, 4))
    axis, block, shape = blocked(d, d.values[x])
    scale_type = d.pick(*[k for k in d.types(op, 1) if is_float(k)]) if d.opset >= 19 else np.dtype(np.float32)
    zero = np.zeros(shape, t) if is_float(t) or t == np.int32 else d.array(t, shape)
    to = proto_type(d.pick(
        *d.types(op, 0, output=True))) if d.opset >= 23 and (scale_type.itemsize == 1 or d.chance(0.3)) else None
    return d.step(op,
                  [x, d.new(scale_type, shape, 0.05, 1.0), d.some(d.add(zero))], axis=axis, block_size=block,
                  output_dtype=to)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(d, op):
    return d.step(op, [d.tensor(np.float32, calm=True, fits=lambda v: v.size)], 3)


@operator("QLinearMatMul")
def qlinear_matmul(d, op):
    t, u, y = (d.pick(*d.types(op, k)) if d.chance(0.2) else np.dtype(d.pick(np.uint8, np.int8)) for k in (0, 3, 7))
    m, k, n, kind = d.pick(1, 2, 5), d.pick(1, 3, 7), d.pick(1, 2, 4), d.type(op, 1)
    batch, s, many = d.shape(0, 1), lambda *shape: d.new(kind, shape, 0.05, 0.5), d.chance(0.3)
    each = (n,) if many else ()
    return d.step(op, [
        d.new(t, (*batch, m, k), calm=True),
        s(),
        d.new(t, ()),
        d.new(u, (k, n), calm=True),
        s(*each),
        d.new(u, each),
        s(),
        d.new(y, ())
    ])


@operator("QLinearConv")
def qlinear_conv(d, op):
    t = d.pick(np.uint8, np.int8)
    u = d.pick(np.uint8, np.int8) if t == np.uint8 else t
    kernel, size, attributes = spatial(d, 2, op)
    group = d.pick(1, 1, 2)
    c, m, many = group * d.pick(1, 3), group * d.pick(1, 2), d.chance()
    s = lambda shape=(): d.new(np.float32, shape, 0.05, 0.5, constant=True)
    z = lambda kind, shape=(): d.add(d.array(kind, shape), True)
    zero = d.add(np.zeros(m, u), True) if many else z(u)
    inputs = [
        d.new(t, (1, c, *size)),
        s(),
        z(t),
        d.new(u, (m, c // group, *kernel), constant=True),
        s((m, ) if many else ()), zero,
        s(),
        z(t)
    ]
    return d.step(op, inputs + [d.some(d.add(d.array(np.int32, (m, ), -100, 100), True))],
                  group=group if group > 1 else d.some(1), kernel_shape=d.some(kernel), **attributes)


# ---- pictures ----

PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


@operator("Resize")
def resize(d, op):
    t, mode = d.type(op), d.pick("nearest", "linear", "cubic" if d.opset >= 11 else "linear")
    if mode != "nearest" and not is_float(t):                   # how a number that is not whole becomes one is not said
        t = np.dtype(np.float32)
    rank = 4 if mode == "cubic" or d.chance(0.7) else d.int(1, 4)
    x = d.new(t, (1, d.pick(1, 2), d.pick(1, 3, 4, 8), d.pick(2, 4, 7))[4 - rank:], calm=True)
    n = d.values[x].shape
    # exact: between two pixels a rounding falls to either side
    scales = [1, 1, d.pick(0.5, 1, 2, 4), d.pick(0.5, 1, 2)]
    if mode != "nearest" and d.opset >= 11:
        scales[2:] = [d.pick(0.6, 1.5, 2, 2.3), d.pick(0.5, 1.7, 3)]
    scales = scales[4 - rank:]
    if d.opset < 11:
        return d.step(op, [x, d.index(scales, np.float32)], mode=d.some(mode) if mode == "nearest" else mode)
    attributes = dict(
        mode=d.some(mode) if mode == "nearest" else mode, coordinate_transformation_mode=d.some(
            d.pick(*PLACES, *["half_pixel_symmetric"] * (d.opset >= 19), *["tf_crop_and_resize"] * d.chance(0.3))),
        nearest_mode=d.some(d.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    roi = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        roi = d.index([0.0] * (rank - 1) + [d.pick(0.0, 0.25)] + [1.0] * (rank - 1) + [d.pick(1.0, 0.75, 1.5)],
                      t if t in d.types(op, 1) else np.float32)
        attributes["extrapolation_value"] = d.some(7.5)
    if mode == "cubic":
        attributes |= dict(exclude_outside=d.some(d.int(0, 1)), cubic_coeff_a=d.some(-0.5))
    if d.opset >= 18 and mode != "nearest":
        attributes["antialias"] = d.some(d.int(0, 1), 0.3)
    axes = list(range(rank))
    if d.opset >= 18 and roi is None and d.chance(0.3):
        axes = [a for a in axes if scales[a] != 1] or axes[-1:]
        attributes["axes"] = [a - rank if d.chance(0.3) else a for a in axes]
    empty = d.add(np.zeros(0, np.float32), True) if d.opset < 13 else None
    if d.opset < 13 and roi is None:
        roi = d.add(np.zeros(0, np.float32), True)
    if d.chance():
        return d.step(op, [x, roi, d.index([scales[a] for a in axes], np.float32)], **attributes)
    if d.opset >= 18 and roi is None and len(axes) > 1 and d.chance(0.3):
        attributes["keep_aspect_ratio_policy"] = d.pick("stretch", "not_larger", "not_smaller")
    return d.step(op,
                  [x, roi, empty, d.index([n[a] * (d.pick(1, 2) if a >= rank - 2 else 1) for a in axes])], **attributes)


@operator("Upsample")
def upsample(d, op):
    x = d.new(np.float32, (1, d.pick(1, 2), d.pick(1, 3), d.pick(2, 5)), calm=True)
    scales, mode = [1.0, 1.0, d.pick(1.0, 2.0, 3.0), d.pick(1.0, 2.0)], d.some(d.pick("nearest", "linear"))
    return d.step(op, [x], scales=scales, mode=mode) if d.opset < 9 else d.step(op, [x, d.index(scales, np.float32)],
                                                                                mode=mode)


@operator("GridSample")
def grid_sample(d, op):
    t = d.type(op, among=lambda k: is_float(k) or k.kind in "cui" and d.chance(0.3))
    n, deep = d.pick(1, 2), d.opset >= 20 and d.chance(0.3)
    space = [d.pick(1, 3, 4) for _ in range(2 + deep)]
    modes = ("linear", "nearest") + ("cubic",) * (not deep) if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    grid = d.new(
        d.type(op, 1, among=is_float) if d.opset >= 20 else np.dtype(np.float32),
        (n, *[d.pick(1, 2, 3) for _ in space], len(space)), -1.3, 1.3)
    # how a number that is not whole becomes one is not said
    mode = "nearest" if t.kind in "ui" else d.some(d.pick(*modes))
    return d.step(op, [d.new(t, (n, d.pick(1, 2), *space), calm=True), grid], mode=mode,
                  padding_mode=d.some(d.pick("zeros", "border", "reflection")), align_corners=d.some(d.int(0, 1)))


@operator("AffineGrid")
def affine_grid(d, op):
    t, n, dims = d.type(op, among=is_float), d.pick(1, 2), d.pick(2, 3)
    return d.step(op,
                  [d.new(t, (n, dims, dims + 1), calm=True),
                   d.index([n, 2, *[d.pick(1, 2, 4) for _ in range(dims)]])], align_corners=d.some(d.int(0, 1)))


@operator("RoiAlign")
def roi_align(d, op):
    t, regions = d.type(op, among=is_float), d.pick(1, 2, 3)
    boxes = np.sort(d.rng.random((regions, 2, 2)) * 12, axis=1).reshape(regions, 4).astype(t)
    where_ = d.some(d.pick("half_pixel", "output_half_pixel")) if d.opset >= 16 else None
    return d.step(op,
                  [d.new(t, (2, 2, 7, 5), calm=True),
                   d.add(boxes), d.new(np.int64, (regions, ), 0, 1)], mode=d.some(d.pick("avg", "max")),
                  output_height=d.some(d.pick(1, 2)), output_width=d.some(d.pick(1, 3)),
                  sampling_ratio=d.some(d.pick(0, 1, 2)), spatial_scale=d.some(d.pick(0.5, 1.0)),
                  coordinate_transformation_mode=where_)


@operator("NonMaxSuppression")
def nms(d, op):
    b, n, c = d.pick(1, 2), d.pick(1, 4, 7), d.pick(1, 2)
    boxes = d.add((d.rng.random((b, n, 4)) * 4).astype(np.float32))
    scores = d.add((d.rng.permutation(b * c * n).reshape(b, c, n) / 64).astype(np.float32))
    more = [
        d.index([d.int(0, 4)]),
        d.index([d.pick(0.0, 0.3, 0.7)], np.float32),
        d.index([d.pick(0.1, 0.2)], np.float32)
    ][:d.int(1, 3)]
    return d.step(op, [boxes, scores] + more, center_point_box=d.some(d.int(0, 1)))


# ---- recurrent ----

@operator("LSTM", "GRU", "RNN")
def recurrent(d, op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    t, direction = d.type(op,
                          among=lambda k: k == np.float32 or d.chance(0.3)), d.pick("forward", "reverse",
                                                                                    "bidirectional")
    dirs, steps, batch, size, hidden = 2 if direction == "bidirectional" else 1, d.pick(1, 2, 4), d.pick(1, 3), d.pick(
        1, 3), d.pick(1, 2, 4)
    f = lambda *shape: d.add((d.rng.standard_normal(shape) * 0.5).astype(t))
    layout = d.opset >= 14 and d.chance(0.2)
    state = lambda: f(*((batch, dirs) if layout else (dirs, batch)), hidden)
    x = f(*((batch, steps) if layout else (steps, batch)), size)
    inputs = [
        x,
        f(dirs, gates * hidden, size),
        f(dirs, gates * hidden, hidden),
        d.some(f(dirs, 2 * gates * hidden)),
        d.some(d.new(np.int32, (batch, ), 1, steps), 0.3),
        d.some(state())
    ]
    if op == "LSTM":
        inputs += [d.some(state()), d.some(f(dirs, 3 * hidden), 0.3)]
    outputs = [d.chance(0.8), True] + [d.chance()] * (op == "LSTM")
    while not outputs[-1]:
        outputs.pop()
    more = {
        "LSTM": dict(input_forget=d.some(d.int(0, 1), 0.2)), "GRU": dict(linear_before_reset=d.some(d.int(0, 1))),
        "RNN": {}
    }[op]
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    names = d.some([
        d.pick("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "Softplus", "LeakyRelu", "ScaledTanh", "Elu",
               "Affine", "ThresholdedRelu") if k % count or count == 1 else "Sigmoid" for k in range(count * dirs)
    ], 0.3)
    if names:
        more["activation_alpha"] = [d.pick(0.2, 0.5, 1.0) for k in names if k in WITH_ALPHA] or None
        more["activation_beta"] = [d.pick(0.3, 0.5) for k in names if k in WITH_BETA] or None
    return d.step(op, inputs, outputs, hidden_size=hidden,
                  direction=d.some(direction) if direction == "forward" else direction, clip=d.some(0.7, 0.2),
                  activations=names, layout=1 if layout else None, **more)


@operator("Attention")
def attention(d, op):
    t, b, kv, group, q, k, h, v = d.type(op, among=is_float), d.pick(1, 2), d.pick(1, 2), d.pick(1, 2), d.pick(
        1, 3), d.pick(1, 2, 4), d.pick(1, 4), d.pick(1, 4)
    flat = d.chance()
    f = lambda heads, n, w: d.new(t, (b, n, heads * w) if flat else (b, heads, n, w), -1, 1)
    mask = d.pick(None, d.new(bool, (q, k)), d.new(t, (b, 1, q, k), -1, 1))
    if mask is not None and d.values[mask].dtype == bool and d.opset < 25:
        d.values[mask][..., 0] = True                           # no row that sees nothing
    past, filled = [None, None], None
    if d.chance(0.2) and mask is None:
        past = [d.new(t, (b, kv, 2, h), -1, 1), d.new(t, (b, kv, 2, v), -1, 1)]
    elif d.opset >= 24 and k >= q and d.chance(0.3):
        filled = d.new(np.int64, (b,), q if d.opset < 25 else 1, k)
    windows = {
        f"{side}_window_size": d.pick(0, 1, 2, -1)
        for side in ("left", "right") if d.opset >= 25 and d.chance(0.2)
    }
    outputs = [True] + [past[0] is not None] * 2
    raw = d.some(d.int(0, 3), 0.3)
    if raw is not None:
        outputs = (outputs + [False, False])[:3] + [True]
    heads = dict(q_num_heads=kv * group, kv_num_heads=kv) if flat else {}
    inputs = [f(kv * group, q, h), f(kv, k, h), f(kv, k, v), mask, *past, filled]
    return d.step(op, inputs, outputs, is_causal=d.some(d.int(0, 1)), scale=d.some(0.7), softcap=d.some(2.0, 0.2),
                  qk_matmul_output_mode=raw,
                  softmax_precision=d.some(TensorProto.FLOAT, 0.2) if t.itemsize == 2 else None, **windows, **heads)


@operator("RotaryEmbedding")
def rotary(d, op):
    t, b, heads, n, size = d.type(op), d.pick(1, 2), d.pick(1, 2), d.pick(1, 3), d.pick(2, 4, 8)
    flat, rotated = d.chance(), d.pick(0, size)
    x = d.new(t, (b, n, heads * size) if flat else (b, heads, n, size), calm=True)
    half = size // 2
    if d.chance():
        return d.step(op, [x, d.new(t, (5, half), -1, 1),
                           d.new(t, (5, half), -1, 1),
                           d.new(np.int64, (b, n), 0, 4)], interleaved=d.some(d.int(0, 1)),
                      num_heads=heads if flat else None, rotary_embedding_dim=d.some(rotated))
    return d.step(op, [x, d.new(t,
                                (b, n, half), -1, 1), d.new(t, (b, n, half), -1, 1)], interleaved=d.some(d.int(0, 1)),
                  num_heads=heads if flat else None)


# ---- losses and signals ----

@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d, op):
    t, n, c, more = d.type(op), d.pick(1, 3), d.pick(2, 5), d.shape(0, 2)
    if 0 in more:
        raise Unfit
    ignore = d.some(d.int(0, c - 1), 0.3)
    x = d.new(t, (n, c, *more), -2, 2)
    outputs = 2 if op[0] == "S" and d.chance(0.3) else 1
    return d.step(op, [x, d.new(d.pick(np.int32, np.int64), (n, *more), 0, c - 1),
                       d.some(d.new(t, (c, ), 0.1, 1.0))], outputs, ignore_index=ignore,
                  reduction=d.some(d.pick("none", "sum", "mean")))


@operator("DFT")
def dft(d, op):
    t, n = d.type(op, among=is_float), d.pick(1, 2, 5, 8)
    axis = d.pick(1, 2)
    shape = [1, 3, 4, d.pick(1, 2)]
    shape[axis] = n
    inverse = d.some(d.int(0, 1)) if shape[-1] == 2 else None
    onesided = d.some(1) if shape[-1] == 1 else None
    length = d.some(d.index(d.pick(3, 5, 8), d.pick(np.int32, np.int64)), 0.3)
    x = d.new(t, shape, calm=True)
    if d.opset >= 20:
        return d.step(op, [x, length, d.index(axis)], inverse=inverse, onesided=onesided)
    return d.step(op, [x, length], axis=axis, inverse=inverse, onesided=onesided)


@operator("STFT")
def stft(d, op):
    t, length = d.type(op, among=is_float), d.pick(4, 5)
    window, kind = d.some(d.new(t, (length,), 0, 1), 0.7), d.pick(np.int32, np.int64)
    return d.step(op, [
        d.new(t, (d.pick(1, 2), d.pick(9, 16), 1), calm=True),
        d.index(d.pick(1, 3), kind), window,
        d.index(length, kind) if window is None or d.chance() else None
    ], onesided=d.some(d.int(0, 1)))


@operator("BlackmanWindow", "HammingWindow", "HannWindow")
def window(d, op):
    return d.step(op, [d.index(d.pick(1, 2, 5, 8), d.pick(np.int32, np.int64))], periodic=d.some(d.int(0, 1)),
                  output_datatype=d.some(d.pick(TensorProto.FLOAT, TensorProto.DOUBLE)))


@operator("MelWeightMatrix")
def mel(d, op):
    kind, low, high = d.type(op, 0), d.pick(0.0, 20.0), d.pick(4096.0, 3000.0)
    real = d.pick(np.float32, np.float64)
    f = lambda v: d.index(v, real)
    return d.step(
        op,
        [d.index(d.pick(1, 2, 8), kind),
         d.index(d.pick(16, 32), kind),
         d.index(8192, kind),
         f(low), f(high)], output_datatype=d.some(d.pick(TensorProto.FLOAT, TensorProto.DOUBLE)))


@operator("MaxRoiPool")
def max_roi_pool(d, op):
    t, regions = d.type(op), d.pick(1, 2, 3)
    boxes = np.concatenate([
        d.rng.integers(0, 2, (regions, 1)),
        np.sort(d.rng.integers(0, 7, (regions, 2, 2)), axis=1).reshape(regions, 4)
    ], 1).astype(t)
    return d.step(
        op, [d.new(t, (2, d.pick(1, 3), 7, 8), calm=True), d.add(boxes)], pooled_shape=[d.pick(1, 2),
                                                                                        d.pick(1, 3)],
        spatial_scale=d.some(d.pick(0.5, 1.0)))


def blocked(d, v):
    """An axis, the number of values along it that share a scale, and the shape of the scales: one for all, one for each
    place of an axis, or (from version 21 on) blocks."""
    if not v.ndim or d.opset < 13 or d.chance(0.4):
        return None, None, ()
    axis = d.axis(v.ndim)
    n = v.shape[axis]
    if d.opset < 21 or not n or d.chance(0.6):
        return axis, None, (n,)
    block = d.int(1, n + 1)                                     # longer than the axis, too
    shape = list(v.shape)
    shape[axis] = -(-n // block)
    return axis, block, tuple(shape)


@operator("SwiGLU", each=True)
def swiglu(d, op):
    x = d.tensor(d.type(op))
    return d.step(op, [x, d.new(d.values[x].dtype, d.values[x].shape)], alpha=d.some(1.5))


@operator("CausalConvWithState")
def causal_conv(d, op):
    t, b, c, n, k = d.type(op), d.pick(1, 2), d.pick(1, 3), d.pick(1, 2, 5), d.pick(1, 2, 4)
    inputs = [
        d.new(t, (b, c, n), calm=True),
        d.new(t, (c, 1, k), calm=True),
        d.some(d.new(t, (c, ), calm=True)),
        d.some(d.new(t, (b, c, k - 1), calm=True))
    ]
    return d.step(op, inputs, 2, activation=d.some(d.pick("none", "silu", "swish")))


@operator("LinearAttention")
def linear_attention(d, op):
    t, b, n, kv, group, k, v = d.type(op), d.pick(1, 2), d.pick(1, 2,
                                                                5), d.pick(1, 2), d.pick(1, 2), d.pick(1, 2,
                                                                                                       4), d.pick(1, 3)
    rule = d.pick("linear", "gated", "delta", "gated_delta")
    f = lambda width: d.new(t, (b, n, width), -1, 1)
    decay = d.new(t, (b, n, d.pick(kv, kv * k)), -1, 0) if "gated" in rule else None
    beta = d.new(t, (b, n, d.pick(kv, 1)), 0, 1) if "delta" in rule else None
    return d.step(
        op, [f(kv * group * k),
             f(kv * k), f(kv * v),
             d.some(d.new(t, (b, kv, k, v), -1, 1)), decay, beta], 2, q_num_heads=kv * group, kv_num_heads=kv,
        scale=d.some(0.5), chunk_size=d.some(2), update_rule=rule if rule != "gated_delta" else d.some(rule))


@operator("FlexAttention", domain=PREVIEW)
def flex_attention(d, op):
    t, b, kv, group, q, k, h, v = d.type(op, 0, PREVIEW), d.pick(1, 2), d.pick(1,
                                                                               2), d.pick(1, 2), d.pick(1, 3), d.pick(
                                                                                   1, 2, 4), d.pick(1, 4), d.pick(1, 4)
    f = lambda heads, n, w: d.new(t, (b, heads, n, w), -1, 1)
    precision = np.dtype(d.pick(np.float32, np.float64)) if d.chance(0.2) else None
    inner = precision or np.dtype(np.float64 if t == np.float64 else np.float32)
    port = lambda name: helper.make_tensor_value_info(name, proto_type(inner), (b, kv * group, q, k))
    mod = lambda: helper.make_graph([helper.make_node(d.pick("Tanh", "Neg", "Abs"), ["i"], ["o"])], "mod", [port("i")],
                                    [port("o")])
    return d.step(op, [f(kv * group, q, h), f(kv, k, h), f(kv, k, v)], 1, PREVIEW, scale=d.some(0.7),
                  score_mod=d.some(mod(), 0.3), prob_mod=d.some(mod(), 0.3),
                  softmax_precision=proto_type(precision) if precision else None)
