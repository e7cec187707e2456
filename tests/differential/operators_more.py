"""Operators of other domains: training, and onnxruntime's own that exported models contain. Of the latter onnxruntime
is the one peer, and its meaning the right one."""
import functools

import ml_dtypes
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
    return d.step(
        op,
        [d.new(d.type(op, 0, TRAINING), (), 0, 1),
         d.index(d.int(0, 3)), *[name for state in states for name in state]], n * (len(states) - 1), TRAINING, **rates)


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


@ms("FusedMatMul", "TransposeMatMul")
def fused_matmul(d, op):
    a, b, m, k, n, batch = d.int(0, 1), d.int(0, 1), d.pick(1, 2, 5), d.pick(1, 3, 7), d.pick(1, 2, 4), d.shape(0, 2)
    shapes, turned = [[*batch, *((k, m) if a else (m, k))],
                      [*batch,
                       *((n, k) if b else
                         (k, n))]], [op == "FusedMatMul" and len(batch) > 0 and d.chance(0.3) for _ in range(2)]
    # an axis of the matrix before those of the batch
    operands = [floats(d, *([v[-2], *v[:-2], v[-1]] if t else v)) for v, t in zip(shapes, turned)]
    return own(d, op, operands, alpha=d.some(0.5), transA=a or d.some(0), transB=b or d.some(0),
               transBatchA=int(turned[0]) or None, transBatchB=int(turned[1]) or None)


@ms("FusedGemm")
def fused_gemm(d, op):
    a, b, m, k, n = d.int(0, 1), d.int(0, 1), d.pick(1, 2, 5), d.pick(1, 3, 7), d.pick(1, 2, 4)
    activation, more = d.pick(("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", dict(activation_alpha=0.2)),
                              ("Elu", dict(activation_alpha=0.7)),
                              ("HardSigmoid", dict(activation_alpha=0.3, activation_beta=0.4)))
    return own(d, op,
               [floats(d, *((k, m) if a else (m, k))),
                floats(d, *((n, k) if b else (k, n))),
                d.some(floats(d, n))], transA=a, transB=b, alpha=d.some(0.5), beta=d.some(2.0), activation=activation,
               **more)


@ms("FusedConv")
def fused_conv(d, op):
    c, m, k = d.pick(1, 3), d.pick(1, 2), d.pick(1, 3)
    activation, params = d.pick(("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.2]),
                                ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]))
    return own(d, op, [floats(d, 1, c, d.pick(3, 5), d.pick(4, 7)),
                       floats(d, m, c, k, k),
                       d.some(floats(d, m))], activation=activation, activation_params=params,
               pads=d.some([1, 0, 1, 1]), strides=d.some([d.pick(1, 2), d.pick(1, 2)]))


@ms("GridSample")
def grid_sample_ms(d, op):
    n, mode = d.pick(1, 2), d.some(d.pick("bilinear", "nearest", "bicubic"))
    return own(d, op, [
        floats(d, n, d.pick(1, 2), d.pick(1, 4), d.pick(3, 5)),
        d.new(np.float32, (n, d.pick(1, 3), d.pick(1, 2), 2), -1.3, 1.3)
    ], mode=mode, padding_mode=d.some(d.pick("zeros", "border", "reflection")), align_corners=d.some(d.int(0, 1)))


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
    inputs = [floats(d, *shape), floats(d, *shape), weights(d, *each)
              ] + [d.some(floats(d, *each))] * plain + [d.some(floats(d, *each))]
    return own(d, op, inputs, [True, False, False, d.chance()], epsilon=d.some(1e-2))


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(d, op):
    x = d.tensor([np.float32, np.float64], (1, 4), calm=True, fits=lambda v: v.size)
    return d.step(op, [x, d.new(d.values[x].dtype, d.values[x].shape[-1:], 0.5, 1.5)], axis=d.some(-1), epsilon=1e-2,
                  stash_type=1)


@ms("EmbedLayerNormalization")
def embed_layer_normalization(d, op):
    b, n, h = d.pick(1, 2), d.pick(1, 4), d.pick(4, 8)
    ids = lambda most: d.new(np.int32, (b, n), 0, most)
    segments = d.chance()
    inputs = [
        ids(8),
        ids(1) if segments else None,
        floats(d, 9, h),
        floats(d, 6, h),
        floats(d, 2, h) if segments else None,
        weights(d, h),
        floats(d, h),
        d.some(d.add(np.array([[1] * (n - 1) + [0]] * b, np.int32)))
    ]
    return own(d, op, inputs, 2, epsilon=d.some(1e-2))


@ms("Attention")
def attention_ms(d, op):
    b, n, heads, size = d.pick(1, 2), d.pick(1, 3, 5), d.pick(1, 2), d.pick(2, 4)
    h = heads * size
    mask = d.pick(None, d.add((np.arange(n) < d.rng.integers(1, n + 1, (b, 1))).astype(np.int32)),
                  d.new(np.int32, (b, ), 1, n), d.add(np.array([n] * b + [d.int(0, n - 1) for _ in range(b)],
                                                               np.int32)))
    return own(d, op, [floats(d, b, n, h),
                       d.new(np.float32, (h, 3 * h), -1, 1, constant=True),
                       floats(d, 3 * h), mask], num_heads=heads, unidirectional=d.some(d.int(0, 1)),
               scale=d.some(0.7, 0.3))


@ms("MultiHeadAttention")
def multi_head_attention(d, op):
    b, q, k, heads, size = d.pick(1, 2), d.pick(1, 3), d.pick(1, 2, 4), d.pick(1, 2), d.pick(2, 4)
    h = heads * size
    return own(d, op, [
        floats(d, b, q, h),
        floats(d, b, k, h),
        floats(d, b, k, h),
        d.some(floats(d, 3 * h)), None,
        d.some(floats(d, d.pick(1, b), d.pick(1, heads), q, k))
    ], num_heads=heads, scale=d.some(0.3))


@ms("GroupQueryAttention")
def group_query_attention(d, op):
    b, n, kv, group, size = d.pick(1, 2), d.pick(1, 5), d.pick(1, 2), d.pick(1, 2), d.pick(8, 16)
    inputs = [
        floats(d, b, n, kv * group * size),
        floats(d, b, n, kv * size),
        floats(d, b, n, kv * size), None, None,
        d.add(np.full((b, ), n - 1, np.int32), True),
        d.add(np.array(n, np.int32), True)
    ]
    rotary = d.chance()
    if rotary:
        inputs += [d.new(np.float32, (8, size // 2), -1, 1), d.new(np.float32, (8, size // 2), -1, 1)]
    return own(d, op, inputs, 3, num_heads=kv * group, kv_num_heads=kv, do_rotary=1 if rotary else None,
               rotary_interleaved=d.some(d.int(0, 1)) if rotary else None, local_window_size=d.some(3, 0.3),
               scale=d.some(0.5, 0.3))


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
    return own(d, op, [
        d.new(t, (m, k)),
        d.new(u, (k, n)),
        scale(d),
        scale(d, *each),
        d.some(zero(d, t)),
        d.some(zero(d, u, *each)),
        d.some(floats(d, n))
    ])


@ms("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(d, op):
    u, m, k, n = byte(d), d.pick(1, 4), d.pick(2, 3, 7), d.pick(1, 2, 5)
    each = (n,) if d.chance() else ()
    return own(d, op, [
        floats(d, m, k),
        d.new(u, (k, n), constant=True),
        scale(d, *each),
        d.some(zero(d, u, *each)),
        d.some(floats(d, n))
    ])


@ms("MatMulNBits")
def matmul_n_bits(d, op):
    block, n, m = d.pick(16, 32), d.pick(1, 6), d.pick(1, 3)
    k = d.pick(block, 2 * block, block + 8)
    blocks = -(-k // block)
    packed = d.new(np.uint8, (n, blocks, block // 2), 0, 255, constant=True)
    points = d.some(d.new(np.uint8, (n * -(-blocks // 2),), 0, 255, constant=True))
    return own(d, op, [floats(d, m, k), packed,
                       d.new(np.float32, (n * blocks, ), 0.05, 0.5, constant=True), points], K=k, N=n, bits=4,
               block_size=block)


@ms("QLinearAdd", "QLinearMul")
def qlinear_binary(d, op):
    t, n = byte(d), d.shape(1, 3)
    other = [1 if d.chance(0.3) else k for k in n][d.int(0, len(n)) if d.chance(0.3) else 0:]
    return own(d, op, [d.new(t, n), scale(d), zero(d, t), d.new(t, other), scale(d), zero(d, t), scale(d), zero(d, t)])


@ms("QLinearSigmoid", "QLinearLeakyRelu")
def qlinear_unary(d, op):
    t = byte(d)
    return own(d, op, [d.new(t, d.shape(0, 3)), scale(d),
                       zero(d, t), scale(d), zero(d, t)], alpha=d.some(0.3) if op == "QLinearLeakyRelu" else None)


@ms("QLinearConcat")
def qlinear_concat(d, op):
    t, n, axis = byte(d), list(d.shape(1, 3)), 0
    parts = [v for _ in range(d.int(1, 3)) for v in (d.new(t, [d.size(), *n[1:]]), scale(d), zero(d, t))]
    return own(d, op, [scale(d), zero(d, t), *parts], axis=axis)


@ms("QLinearGlobalAveragePool")
def qlinear_global_average_pool(d, op):
    t = byte(d)
    return own(d, op, [
        d.new(t, (d.pick(1, 2), d.pick(1, 3), d.pick(1, 4), d.pick(2, 5))),
        scale(d),
        zero(d, t),
        scale(d),
        zero(d, t)
    ], channels_last=d.some(d.int(0, 1)))


@ms("QLinearAveragePool")
def qlinear_average_pool(d, op):
    t, kernel = byte(d), [d.int(1, 3), d.int(1, 3)]
    pads = [d.int(0, k - 1) for k in kernel] + [d.int(0, k - 1) for k in kernel]
    last, n, c, image = d.int(0, 1), d.pick(1, 2), d.pick(1, 3), [d.pick(3, 4, 7), d.pick(3, 5)]
    return own(
        d, op,
        [d.new(t, (n, *image, c) if last else (n, c, *image)),
         scale(d), zero(d, t),
         scale(d), zero(d, t)], channels_last=last or d.some(0), kernel_shape=kernel,
        strides=d.some([d.int(1, 3), d.int(1, 3)]), pads=d.some(pads), count_include_pad=d.some(d.int(0, 1)))


@ms("QLinearSoftmax")
def qlinear_softmax(d, op):
    # what is from 0 to 1 fills the type: the peer's table knows no other result
    t, n = byte(d), d.shape(1, 4)
    result = [d.add(np.array(1 / 256, np.float32), constant=True), d.add(np.array(np.iinfo(t).min, t), constant=True)]
    return own(d, op, [d.new(t, n), scale(d), zero(d, t), *result], opset=d.pick(11, 13),
               axis=d.int(-len(n),
                          len(n) - 1))


@ms("QLinearWhere")
def qlinear_where(d, op):
    t, n = byte(d), d.shape(1, 3)
    some = lambda: [1 if d.chance(0.3) else k for k in n]
    return own(d, op, [
        d.new(bool, n),
        d.new(t, some()),
        scale(d),
        zero(d, t),
        d.new(t, some()),
        scale(d),
        zero(d, t),
        scale(d),
        zero(d, t)
    ])


@ms("QGemm")
def qgemm(d, op):
    t, u, b, m, k, n = byte(d), byte(d), d.int(0, 1), d.pick(1, 4), d.pick(1, 3, 7), d.pick(1, 2, 5)
    inputs = [
        d.new(t, (m, k)),
        scale(d),
        zero(d, t),
        d.new(u, (n, k) if b else (k, n), constant=True),
        scale(d),
        zero(d, u),
        d.some(d.new(np.int32, (n, ), -100, 100, constant=True))
    ]
    return own(d, op, inputs + d.pick([], [scale(d), zero(d, t)]), transB=b or d.some(0), alpha=d.some(0.5))


@ms("Tokenizer")
def tokenizer(d, op):
    way = d.pick(dict(separators=[" ", ","]), dict(separators=[""]), dict(tokenexp="[a-z]+"))
    return own(d, op, [d.new(object, d.shape(1, 2))], mark=d.int(0, 1), mincharnum=d.int(1, 2), pad_value="#", **way)


@ms("QAttention")
def q_attention(d, op):
    b, n, heads, size, u = d.pick(1, 2), d.pick(1, 3, 5), d.pick(1, 2), d.pick(2, 4), byte(d)
    h, each = heads * size, d.chance()
    columns = (3 * h,) if each else (1,)
    inputs = [
        d.new(np.uint8, (b, n, h), 0, 255),
        d.new(u, (h, 3 * h), constant=True),
        floats(d, 3 * h),
        scale(d),
        scale(d, *columns),
        d.some(d.new(np.int32, (b, ), 1, n)),
        zero(d, np.uint8),
        zero(d, u, *columns)
    ]
    return own(d, op, inputs, num_heads=heads, unidirectional=d.some(d.int(0, 1)))


@ms("QEmbedLayerNormalization")
def q_embed_layer_normalization(d, op):
    b, n, h, t, segments = d.pick(1, 2), d.pick(1, 4), d.pick(4, 8), byte(d), d.chance()
    table = lambda *shape: d.add(d.rng.integers(-128, 128, shape).astype(np.int8).view(t), True)
    ids = lambda most: d.new(np.int32, (b, n), 0, most)
    inputs = [
        ids(8),
        ids(1) if segments else None,
        table(9, h),
        table(6, h),
        table(2, h) if segments else None,
        table(h),
        table(h),
        d.some(d.add(np.array([[1] * (n - 1) + [0]] * b, np.int32)))
    ]
    inputs += [scale(d) if segments or k != 2 else None
               for k in range(5)] + [zero(d, t) if segments or k != 2 else None for k in range(5)]
    return own(d, op, inputs, 2, epsilon=d.some(1e-2))


@ms("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(d, op):
    n, h, f, dirs, t = d.pick(1, 3), d.pick(2, 4), d.pick(2, 5), d.pick(1, 2), byte(d)
    table = lambda *shape: d.add(d.rng.integers(-128, 128, shape).astype(np.int8).view(t), True)
    points = lambda: d.add(np.zeros((dirs,), t), True)
    state = [floats(d, dirs, 1, h), floats(d, dirs, 1, h)] if d.chance() else [None, None]
    inputs = [
        floats(d, n, 1, f),
        table(dirs, f, 4 * h),
        table(dirs, h, 4 * h),
        d.some(d.new(np.float32, (dirs, 8 * h), -1, 1, constant=True)), None, *state, None
    ]
    inputs += [
        d.new(np.float32, (dirs, ), 0.001, 0.01, constant=True),
        points(),
        d.new(np.float32, (dirs, ), 0.001, 0.01, constant=True),
        points()
    ]
    return own(d, op, inputs, 3, hidden_size=h,
               direction="bidirectional" if dirs == 2 else d.some(d.pick("forward", "reverse")))


@ms("GatherBlockQuantized")
def gather_block_quantized(d, op):
    rows, n, idx = d.pick(3, 7), d.pick(16, 24, 40), d.shape(0, 2)
    blocks, at = -(-n // 16), d.new(np.dtype(d.pick(np.int32, np.int64)), idx, 0, 2)
    if d.chance():
        bits = d.pick(4, 8)
        points = d.some(d.new(np.uint8, (rows, -(-blocks * bits // 8)), 0, 255, constant=True))
        return own(d, op,
                   [d.new(np.uint8, (rows, n * bits // 8), 0, 255, constant=True), at,
                    scale(d, rows, blocks), points], bits=bits, block_size=16)
    t = np.dtype(d.pick(ml_dtypes.int4, ml_dtypes.uint4))
    return own(d, op, [
        d.new(t, (rows, n), -8, 15, constant=True), at,
        scale(d, rows, blocks),
        d.some(d.new(t, (rows, blocks), -8, 15, constant=True))
    ], block_size=16)


@ms("MatMulBnb4")
def matmul_bnb4(d, op):
    k, n, m = d.pick(16, 24, 40), d.pick(1, 6), d.pick(1, 3)
    return own(d, op,
               [floats(d, m, k),
                d.new(np.uint8, (-(-n * k // 2), ), 0, 255, constant=True),
                scale(d, -(-n * k // 16))], K=k, N=n, block_size=16, quant_type=d.int(0, 1))


@ms("NhwcMaxPool")
def nhwc_max_pool(d, op):
    t, kernel = byte(d), [d.int(1, 3), d.int(1, 3)]
    pads = [d.int(0, k - 1) for k in kernel] + [d.int(0, k - 1) for k in kernel]
    return own(d, op, [d.new(t, (d.pick(1, 2), d.pick(3, 4, 7), d.pick(3, 5), d.pick(1, 3)))], kernel_shape=kernel,
               strides=d.some([d.int(1, 3), d.int(1, 3)]), pads=d.some(pads), ceil_mode=d.some(d.int(0, 1)))


@ms("QLinearConv")
def qlinear_conv_ms(d, op):
    t, c, m, k, last = byte(d), d.pick(1, 3), d.pick(1, 4), d.pick(1, 3), d.int(0, 1)
    image, each = [d.pick(3, 5), d.pick(4, 7)], (m,) if d.chance() else ()
    x, w = d.new(t, (1, *image, c) if last else (1, c, *image)), d.new(np.int8, (m, c, k, k), constant=True)
    inputs = [
        x,
        scale(d),
        zero(d, t), w,
        scale(d, *each),
        d.add(np.zeros(each, np.int8), True),
        scale(d),
        zero(d, t),
        d.some(d.new(np.int32, (m, ), -100, 100, constant=True))
    ]
    return own(d, op, inputs, channels_last=last, pads=d.some([1, 0, 1, 1]),
               strides=d.some([d.pick(1, 2), d.pick(1, 2)]))


@ms("ExpandDims", "Trilu", "UnfoldTensor", "Unique", "MurmurHash3")
def alike(d, op):
    types = {"MurmurHash3": [np.int32, np.int64, np.uint32, np.float32, np.float64], "Unique":
             np.float32}.get(op, [np.float32, np.int64, np.float64])
    x = d.tensor(types, {"Trilu": (2, 4), "Unique": (1, 1), "UnfoldTensor": (1, 3)}.get(op, (0, 3)),
                 fits=lambda v: v.size and not (v.dtype.kind == "f" and np.isnan(v).any()))
    shape = d.values[x].shape
    if op == "ExpandDims":
        return own(d, op, [x, d.add(np.array(d.int(-len(shape) - 1, len(shape)), np.int32), True)])
    if op == "Trilu":
        return own(d, op, [x, d.some(d.add(np.array(d.int(-3, 3)), True))], upper=d.some(d.int(0, 1)))
    if op == "UnfoldTensor":
        axis = d.int(0, len(shape) - 1)
        return own(d, op, [x], dim=axis, size=d.int(1, shape[axis]), step=d.some(d.int(1, 3)))
    return own(d, op, [x], 3) if op == "Unique" else own(d, op, [x], seed=d.some(d.int(0, 99)), positive=d.some(
        d.int(0, 1)))


@ms("GatherND", "Pad", "Range", "SampleOp")
def alike_more(d, op):
    t = np.dtype(d.pick(np.float32, np.float64, np.int64))
    if op == "GatherND":
        rows, deep = (d.pick(1, 3), d.pick(2, 4), d.pick(1, 5)), d.int(1, 3)
        return own(d, op, [
            d.new(t, rows, calm=True),
            d.add(
                np.stack([d.rng.integers(-n, n, d.pick(1, 4))
                          for n in rows[:deep]] if deep == 1 else [d.rng.integers(-n, n, 3) for n in rows[:deep]], -1))
        ])
    if op == "Range":
        return own(d, op, [d.add(np.array(v, t), True) for v in d.pick((1, 9), (0, 5, 2), (7, -3, -4))])
    x = d.new(np.float32, (d.pick(2, 3), d.pick(3, 5)), calm=True)
    if op == "SampleOp":
        return own(d, op, [x])
    pads = [d.int(0, 1), d.int(0, 2), d.int(0, 1), d.int(0, 2)]
    return own(
        d, op,
        [x, d.add(np.array([pads] if d.chance() else pads), True),
         d.some(d.add(np.array(1.5, np.float32), True))], mode=d.some(d.pick("constant", "reflect", "edge")))


@ms("GatedAdd", "ScaledSiLU")
def gates(d, op):
    shape = (*d.shape(1, 2), d.pick(1, 4))
    if op == "ScaledSiLU":
        return own(d, op, [floats(d, *shape), d.some(scale(d))], alpha=d.some(0.7))
    return own(d, op, [floats(d, *shape), floats(d, *shape), floats(d, *shape[:-1], 1)])


@ms("MatMulInteger16")
def matmul_integer16(d, op):
    m, k, n = d.pick(1, 4), d.pick(1, 3, 7), d.pick(1, 2, 5)
    return own(d, op, [d.new(np.int16, (m, k)), d.new(np.int16, (k, n))])


@ms("LinearAttention")
def linear_attention_ms(d, op):
    b, n, heads, k, v, rule = d.pick(1, 2), d.pick(1, 4), d.pick(1, 2), d.pick(2, 4), d.pick(2, 3), d.pick(
        "linear", "gated", "delta", "gated_delta")
    decay = d.new(np.float32, (b, n, heads * d.pick(1, k)), -1, 0) if rule.startswith("gated") else None
    beta = d.new(np.float32, (b, n, d.pick(1, heads)), 0, 0.5) if rule.endswith("delta") else None
    inputs = [
        floats(d, b, n, heads * k),
        d.new(np.float32, (b, n, heads * k), -0.5, 0.5),
        floats(d, b, n, heads * v),
        d.some(floats(d, b, heads, k, v)), decay, beta
    ]
    return own(d, op, inputs, 2, q_num_heads=heads, kv_num_heads=heads, update_rule=rule, scale=d.some(0.5))


@ms("QMoE")
def quantised_experts(d, op):
    n, e, h, i, bits = d.pick(1, 3), d.pick(2, 4), d.pick(32, 64), 32, d.pick(4, 8)
    # of 8 bits by blocks the peer computes with 8-bit activations
    block = 16 if bits == 4 and d.chance() else 0
    table = lambda columns, rows: d.new(np.uint8, (e, columns, rows * bits // 8), 0, 255, constant=True)
    scales = lambda columns, rows: d.new(np.float32, (e, columns) + ((rows // block, )
                                                                     if block else ()), 0.001, 0.02, constant=True)
    bias = lambda columns: d.new(np.float32, (e, columns), -1, 1, constant=True)
    inputs = [
        floats(d, n, h),
        votes(d, n, e),
        table(2 * i, h),
        scales(2 * i, h),
        bias(2 * i),
        table(h, i),
        scales(h, i),
        bias(h)
    ]
    return own(d, op, inputs, k=d.int(1, 2), activation_type="swiglu", normalize_routing_weights=1, swiglu_fusion=1,
               expert_weight_bits=bits, block_size=block or None, activation_alpha=d.some(1.702),
               activation_beta=d.some(1.0))


@ms("CDist")
def distances(d, op):
    t, n = np.dtype(d.pick(np.float32, np.float64)), d.pick(1, 3, 8)
    return own(d, op, [d.new(t, (d.pick(1, 4), n), calm=True),
                       d.new(t, (d.pick(1, 5), n), calm=True)], metric=d.pick("euclidean", "sqeuclidean"))


@ms("NGramRepeatBlock")
def repeats(d, op):
    b = d.pick(1, 2)
    return own(d, op, [d.new(np.int64, (b, d.pick(4, 9)), 0, 2), floats(d, b, 4)], ngram_size=d.int(1, 3))


def votes(d, n, experts):
    """Scores of experts, none twice: which of two is taken nobody says."""
    return d.add(np.stack([d.rng.permutation(experts) for _ in range(n)]).astype(np.float32) / 2)


@ms("MoE")
def experts(d, op):
    n, e, h, i, act = d.pick(1, 3), d.pick(2, 4), d.pick(2, 6), d.pick(1,
                                                                       5), d.pick("relu", "gelu", "silu", "identity",
                                                                                  "swiglu")
    wide, fused = (2 * i,
                   dict(swiglu_fusion=1, activation_alpha=d.some(1.702), activation_beta=d.some(1.0),
                        swiglu_limit=d.some(0.7))) if act == "swiglu" else (i, {})
    table = lambda *shape: d.new(np.float32, shape, -1, 1, constant=True)
    inputs = [
        floats(d, n, h),
        votes(d, n, e),
        table(e, wide, h),
        d.some(table(e, wide)),
        table(e, h, i),
        d.some(table(e, h))
    ]
    return own(d, op, inputs, k=d.int(1, 2), activation_type=act, normalize_routing_weights=d.some(d.int(0, 1)),
               **fused)


@ms("GatedRMSNorm")
def gated_norm(d, op):
    groups, n = d.pick(1, 2), d.pick(1, 4)
    shape = (*d.shape(1, 2), groups * n)
    return own(d, op, [floats(d, *shape), weights(d, n), floats(d, *shape)],
               activation=d.some(d.pick("silu", "swish", "sigmoid")), epsilon=d.some(1e-2))


@ms("CausalConvWithState")
def causal_conv(d, op):
    b, c, k, dilation = d.pick(1, 2), d.pick(1, 3), d.pick(1, 4), d.pick(1, 2)
    inputs = [
        floats(d, b, c, d.pick(1, 5)),
        floats(d, c, 1, k),
        d.some(floats(d, c)),
        d.some(floats(d, b, c, (k - 1) * dilation)) if k > 1 else None
    ]
    return own(d, op, inputs, 2, activation=d.some(d.pick("none", "silu", "swish")),
               dilation=dilation if dilation > 1 else None)
