"""Operators of other domains: training, and onnxruntime's own that exported models contain. Of the latter onnxruntime is the one peer, and its meaning the right one."""
import functools

import numpy as np

from draw import MS, TRAINING
from table import operator

ms = functools.partial(operator, domain=MS)


# ---- ai.onnx.preview.training ----

@operator("Adagrad", "Adam", "Momentum", domain=TRAINING)
def optimizer(d, op):
    n, shapes, f = d.pick(1, 2), [d.shape(0, 2), d.shape(0, 2)], d.type(op, 2, TRAINING)
    states = [[d.new(f, shape, 0, 1) for shape in shapes[:n]] for _ in range(4 if op == "Adam" else 3)]
    rates = dict(norm_coefficient=d.some(0.25))
    if op == "Adagrad":
        rates |= dict(decay_factor=d.some(0.1), epsilon=d.some(1e-3))
    elif op == "Adam":
        rates |= dict(alpha=d.some(0.8), beta=d.some(0.9), epsilon=d.some(1e-3), norm_coefficient_post=d.some(0.1))
    else:
        rates = dict(norm_coefficient=0.25, alpha=0.8, beta=0.7, mode=d.pick("standard", "nesterov"))
    return d.step(op, [d.new(d.type(op, 0, TRAINING), (), 0, 1), d.index(d.int(0, 3)), *[name for state in states for name in state]], n * (len(states) - 1), TRAINING, **rates)


# ---- com.microsoft ----

def floats(d, *shape):
    return d.new(np.float32, shape, calm=True)


def weights(d, *shape):
    return d.new(np.float32, shape, 0.5, 1.5)


def own(d, op, inputs, outputs=1, **attributes):
    return d.step(op, inputs, outputs, MS, **attributes)


@ms("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
def gelu(d, op):
    n = d.pick(1, 2, 3, 8)
    bias = {"BiasGelu": floats(d, n), "FastGelu": d.some(floats(d, n))}.get(op)
    return own(d, op, [floats(d, *d.shape(0, 2), n), bias], alpha=d.some(1.3) if op == "QuickGelu" else None)


@ms("FusedMatMul")
def fused_matmul(d, op):
    a, b, m, k, n, batch = d.int(0, 1), d.int(0, 1), d.pick(1, 2, 5), d.pick(1, 3, 7), d.pick(1, 2, 4), d.shape(0, 2)
    return own(d, op, [floats(d, *batch, *((k, m) if a else (m, k))), floats(d, *batch, *((n, k) if b else (k, n)))], alpha=d.some(0.5), transA=a or d.some(0), transB=b or d.some(0))


@ms("FusedConv")
def fused_conv(d, op):
    c, m, k = d.pick(1, 3), d.pick(1, 2), d.pick(1, 3)
    activation, params = d.pick(("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]))
    return own(d, op, [floats(d, 1, c, d.pick(3, 5), d.pick(4, 7)), floats(d, m, c, k, k), d.some(floats(d, m))], activation=activation, activation_params=params, pads=d.some([1, 0, 1, 1]),
               strides=d.some([d.pick(1, 2), d.pick(1, 2)]))


@ms("GridSample")
def grid_sample_ms(d, op):
    n, mode = d.pick(1, 2), d.some(d.pick("bilinear", "nearest", "bicubic"))
    return own(d, op, [floats(d, n, d.pick(1, 2), d.pick(1, 4), d.pick(3, 5)), d.new(np.float32, (n, d.pick(1, 3), d.pick(1, 2), 2), -1.3, 1.3)], mode=mode,
               padding_mode=d.some(d.pick("zeros", "border", "reflection")), align_corners=d.some(d.int(0, 1)))


@ms("Inverse")
def inverse(d, op):
    n = d.pick(1, 2, 3, 5)
    x = floats(d, *d.shape(0, 2), n, n)
    d.values[x] = (d.values[x] + 4 * n * np.eye(n)).astype(np.float32)      # far from having none
    return own(d, op, [x])


@ms("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_normalization(d, op):
    shape = (d.pick(1, 2), d.pick(1, 3), d.pick(1, 4, 8))
    each, plain = shape[-1:], op == "SkipLayerNormalization"
    inputs = [floats(d, *shape), floats(d, *shape), weights(d, *each)] + [d.some(floats(d, *each))] * plain + [d.some(floats(d, *each))]
    return own(d, op, inputs, [True, False, False, d.chance()], epsilon=d.some(1e-2))


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(d, op):
    x = d.tensor([np.float32, np.float64], (1, 4), calm=True, fits=lambda v: v.size)
    return d.step(op, [x, d.new(d.values[x].dtype, d.values[x].shape[-1:], 0.5, 1.5)], axis=d.some(-1), epsilon=1e-2, stash_type=1)


@ms("EmbedLayerNormalization")
def embed_layer_normalization(d, op):
    b, n, h = d.pick(1, 2), d.pick(1, 4), d.pick(4, 8)
    ids = lambda most: d.new(np.int32, (b, n), 0, most)
    segments = d.chance()
    inputs = [ids(8), ids(1) if segments else None, floats(d, 9, h), floats(d, 6, h), floats(d, 2, h) if segments else None, weights(d, h), floats(d, h), d.some(d.add(np.array([[1] * (n - 1) + [0]] * b, np.int32)))]
    return own(d, op, inputs, 2, epsilon=d.some(1e-2))


@ms("Attention")
def attention_ms(d, op):
    b, n, heads, size = d.pick(1, 2), d.pick(1, 3, 5), d.pick(1, 2), d.pick(2, 4)
    h = heads * size
    mask = d.pick(None, d.add((np.arange(n) < d.rng.integers(1, n + 1, (b, 1))).astype(np.int32)), d.new(np.int32, (b,), 1, n))
    return own(d, op, [floats(d, b, n, h), d.new(np.float32, (h, 3 * h), -1, 1, constant=True), floats(d, 3 * h), mask], num_heads=heads, unidirectional=d.some(d.int(0, 1)), scale=d.some(0.7, 0.3))


@ms("MultiHeadAttention")
def multi_head_attention(d, op):
    b, q, k, heads, size = d.pick(1, 2), d.pick(1, 3), d.pick(1, 2, 4), d.pick(1, 2), d.pick(2, 4)
    h = heads * size
    return own(d, op, [floats(d, b, q, h), floats(d, b, k, h), floats(d, b, k, h), d.some(floats(d, 3 * h)), None, d.some(floats(d, d.pick(1, b), d.pick(1, heads), q, k))], num_heads=heads, scale=d.some(0.3))


@ms("GroupQueryAttention")
def group_query_attention(d, op):
    b, n, kv, group, size = d.pick(1, 2), d.pick(1, 5), d.pick(1, 2), d.pick(1, 2), d.pick(8, 16)
    inputs = [floats(d, b, n, kv * group * size), floats(d, b, n, kv * size), floats(d, b, n, kv * size), None, None, d.add(np.full((b,), n - 1, np.int32), True), d.add(np.array(n, np.int32), True)]
    rotary = d.chance()
    if rotary:
        inputs += [d.new(np.float32, (8, size // 2), -1, 1), d.new(np.float32, (8, size // 2), -1, 1)]
    return own(d, op, inputs, 3, num_heads=kv * group, kv_num_heads=kv, do_rotary=1 if rotary else None, rotary_interleaved=d.some(d.int(0, 1)) if rotary else None, local_window_size=d.some(3, 0.3), scale=d.some(0.5, 0.3))


@ms("RotaryEmbedding")
def rotary_ms(d, op):
    b, heads, n, size = d.pick(1, 2), d.pick(1, 2), d.pick(1, 3), d.pick(2, 4, 8)
    at = d.new(np.int64, (b, n), 0, 5) if d.chance() else d.index([d.int(0, 3)])
    table = [d.new(np.float32, (6, size // 2), -1, 1) for _ in range(2)]
    if d.chance():
        return own(d, op, [floats(d, b, heads, n, size), at, *table], interleaved=d.some(d.int(0, 1)))
    return own(d, op, [floats(d, b, n, heads * size), at, *table], interleaved=d.some(d.int(0, 1)))


def byte(d):
    return np.dtype(d.pick(np.uint8, np.int8))


def scale(d, *shape):
    return d.new(np.float32, shape, 0.05, 0.5, constant=True)


def zero(d, t, *shape):
    return d.add(d.array(t, shape), True)


@ms("QuantizeLinear")
def quantize_ms(d, op):
    x = d.tensor(np.float32, calm=True)
    t = d.pick(np.uint8, np.int8, np.uint16, np.int16)
    return own(d, op, [x, scale(d), zero(d, t)])


@ms("DequantizeLinear")
def dequantize_ms(d, op):
    t = d.pick(np.uint8, np.int8, np.uint16, np.int16)
    return own(d, op, [d.tensor(t), scale(d), zero(d, t)])


@ms("MatMulIntegerToFloat")
def matmul_integer_to_float(d, op):
    t, u, m, k, n = byte(d), byte(d), d.pick(1, 4), d.pick(1, 3, 7), d.pick(1, 2, 5)
    each = (n,) if d.chance() else ()
    return own(d, op, [d.new(t, (m, k)), d.new(u, (k, n)), scale(d), scale(d, *each), d.some(zero(d, t)), d.some(zero(d, u, *each)), d.some(floats(d, n))])


@ms("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(d, op):
    u, m, k, n = byte(d), d.pick(1, 4), d.pick(2, 3, 7), d.pick(1, 2, 5)
    each = (n,) if d.chance() else ()
    return own(d, op, [floats(d, m, k), d.new(u, (k, n), constant=True), scale(d, *each), d.some(zero(d, u, *each)), d.some(floats(d, n))])


@ms("MatMulNBits")
def matmul_n_bits(d, op):
    block, n, m = d.pick(16, 32), d.pick(1, 6), d.pick(1, 3)
    k = d.pick(block, 2 * block, block + 8)
    blocks = -(-k // block)
    packed = d.new(np.uint8, (n, blocks, block // 2), 0, 255, constant=True)
    points = d.some(d.new(np.uint8, (n * -(-blocks // 2),), 0, 255, constant=True))
    return own(d, op, [floats(d, m, k), packed, d.new(np.float32, (n * blocks,), 0.05, 0.5, constant=True), points], K=k, N=n, bits=4, block_size=block)


@ms("QLinearAdd", "QLinearMul")
def qlinear_binary(d, op):
    t, n = byte(d), d.shape(1, 3)
    other = [1 if d.chance(0.3) else k for k in n][d.int(0, len(n)) if d.chance(0.3) else 0:]
    return own(d, op, [d.new(t, n), scale(d), zero(d, t), d.new(t, other), scale(d), zero(d, t), scale(d), zero(d, t)])


@ms("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(d, op):
    t = byte(d)
    return own(d, op, [d.new(t, d.shape(0, 3)), scale(d), zero(d, t), scale(d), zero(d, t)], alpha=d.some(0.3) if op == "QLinearLeakyRelu" else None)


@ms("QLinearConcat")
def qlinear_concat(d, op):
    t, n, axis = byte(d), list(d.shape(1, 3)), 0
    parts = [v for _ in range(d.int(1, 3)) for v in (d.new(t, [d.size(), *n[1:]]), scale(d), zero(d, t))]
    return own(d, op, [scale(d), zero(d, t), *parts], axis=axis)


@ms("QLinearGlobalAveragePool")
def qlinear_global_average_pool(d, op):
    t = byte(d)
    return own(d, op, [d.new(t, (d.pick(1, 2), d.pick(1, 3), d.pick(1, 4), d.pick(2, 5))), scale(d), zero(d, t), scale(d), zero(d, t)], channels_last=d.some(d.int(0, 1)))


@ms("QLinearAveragePool")
def qlinear_average_pool(d, op):
    t, kernel = byte(d), [d.int(1, 3), d.int(1, 3)]
    pads = [d.int(0, k - 1) for k in kernel] + [d.int(0, k - 1) for k in kernel]
    return own(d, op, [d.new(t, (d.pick(1, 2), d.pick(1, 3), d.pick(3, 4, 7), d.pick(3, 5))), scale(d), zero(d, t), scale(d), zero(d, t)],
               kernel_shape=kernel, strides=d.some([d.int(1, 3), d.int(1, 3)]), pads=d.some(pads), count_include_pad=d.some(d.int(0, 1)))


@ms("QLinearSoftmax")
def qlinear_softmax(d, op):
    t, n = byte(d), d.shape(1, 4)               # what is from 0 to 1 fills the type: the peer's table knows no other result
    result = [d.add(np.array(1 / 256, np.float32), constant=True), d.add(np.array(np.iinfo(t).min, t), constant=True)]
    return own(d, op, [d.new(t, n), scale(d), zero(d, t), *result], opset=d.pick(11, 13), axis=d.int(-len(n), len(n) - 1))


@ms("QLinearWhere")
def qlinear_where(d, op):
    t, n = byte(d), d.shape(1, 3)
    some = lambda: [1 if d.chance(0.3) else k for k in n]
    return own(d, op, [d.new(bool, n), d.new(t, some()), scale(d), zero(d, t), d.new(t, some()), scale(d), zero(d, t), scale(d), zero(d, t)])


@ms("QGemm")
def qgemm(d, op):
    t, u, b, m, k, n = byte(d), byte(d), d.int(0, 1), d.pick(1, 4), d.pick(1, 3, 7), d.pick(1, 2, 5)
    inputs = [d.new(t, (m, k)), scale(d), zero(d, t), d.new(u, (n, k) if b else (k, n), constant=True), scale(d), zero(d, u), d.some(d.new(np.int32, (n,), -100, 100, constant=True))]
    return own(d, op, inputs + d.pick([], [scale(d), zero(d, t)]), transB=b or d.some(0), alpha=d.some(0.5))


@ms("Tokenizer")
def tokenizer(d, op):
    way = d.pick(dict(separators=[" ", ","]), dict(separators=[""]), dict(tokenexp="[a-z]+"))
    return own(d, op, [d.new(object, d.shape(1, 2))], mark=d.int(0, 1), mincharnum=d.int(1, 2), pad_value="#", **way)
