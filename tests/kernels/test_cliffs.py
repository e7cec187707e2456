"""What once made a kernel many times slower than its memory, by what its text shows: a sum that was made again for each
element that it does not depend on, a branch for each element that no one foresees."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import machine

build = pathlib.Path(os.environ["BUILD_DIR"])
wrong, count = [], 0


def check(name, good):
    global count
    count += 1
    if not good:
        wrong.append(name)


def model(folder, nodes, shape, constants, kind=TensorProto.FLOAT):
    """The file of a model x -> y."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_tensor_value_info("y", kind, None)],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    path = os.path.join(folder, "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
                                ir_version=9), path)
    return path


def dump(nodes, shape, constants, stage, kind=TensorProto.FLOAT, more=()):
    """A stage's text; more: options."""
    with tempfile.TemporaryDirectory() as folder:
        path = model(folder, nodes, shape, constants, kind)
        done = subprocess.run([build / "tgrun", "dump", path, "--stage", stage, "--device", "cpu", "--threads", "2", *more],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def excess(nodes, shape, constants):
    """Of the kernels of a run, the most operations that one executes for each that is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = model(folder, nodes, shape, constants)
        done = subprocess.run([build / "tgrun", "profile", path, "--device", "cpu", "--threads", "2", "--json"],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return max(k["excess"] for k in json.loads(done.stdout)["kernels"])


def own_over_cc(nodes, shape, constants, enough):
    """The time of all kernels in our own machine code over the compiler's: the least of each in alternating runs, until
    it is below what is enough."""
    least = {"own": np.inf, "cc": np.inf}
    with tempfile.TemporaryDirectory() as folder:
        path = model(folder, nodes, shape, constants)
        for _ in range(8):
            for compiler in least:
                done = subprocess.run([build / "tgrun", "profile", path, "--device", "cpu", "--threads", "1", "--json",
                                       "--compiler", compiler], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(done.stderr)
                taken = sum(k["seconds"] for k in json.loads(done.stdout)["kernels"])
                least[compiler] = min(least[compiler], taken)
            if least["own"] < enough * least["cc"]:
                break
    return least["own"] / least["cc"]


if not machine.has_vectors_of_32_bytes:
    print("skipped: these are forms of vectors of 32 bytes and more")
    raise SystemExit(0)


def loads_with_gates(text):
    return sum(" = LOAD." in line and line.count("%") == 4 for line in text.splitlines())


# Statistics of a padded value over axis 2: axes 1 and 2 lie side by side in the result, but the sums know axis 1 alone.
padded = [helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("LogSoftmax", ["p"], ["y"], axis=2)]
pads = {"pads": np.array([1, 1, 1, 1, 1, 0, 1, 1])}
text = dump(padded, [577, 1, 144, 1], pads, "plan")
check("sums stay outside of the loop that they do not depend on", "r_579_2_146_" in text and "_292_" not in text)
check("nothing of a padded log-softmax is computed twice", 0 < excess(padded, [577, 1, 144, 1], pads) < 1.5)

# Statistics over an outer axis, of what an activation made: each element is made once.
statistics = [helper.make_node("Gelu", ["x"], ["g"]), helper.make_node("ReduceMean", ["g", "axes"], ["m"]),
              helper.make_node("Sub", ["g", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["s"]),
              helper.make_node("ReduceMean", ["s", "axes"], ["v"]), helper.make_node("Div", ["d", "v"], ["y"])]
check("an activation behind its statistics is computed once",
      0 < excess(statistics, [2, 1024, 256], {"axes": np.array([1])}) < 1.5)
check("a softmax over an outer axis", 0 < excess([helper.make_node("Softmax", ["x"], ["y"], axis=1)], [8, 768, 384], {}) < 1.5)

# Statistics of a convolution's result along the last axis of an output: lanes of channels would store to 16 lines that
# share a set of the cache, an element each.
text = dump([helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("LogSoftmax", ["c"], ["y"])],
            [32, 2, 5, 1024], {"w": np.ones((16, 2, 3, 3), "f4")}, "plan")
check("a value that statistics read lies as the output does", "r_2560_1024_" in text)

# A choice by the element itself, where tiles of 16 rows overlap at the end: the element is read anyway.
text = dump([helper.make_node("Greater", ["x", "zero"], ["m"]), helper.make_node("Where", ["m", "x", "low"], ["w"]),
             helper.make_node("LogSoftmax", ["w"], ["y"], axis=2)], [579, 2, 146, 3],
            {"zero": np.float32(0), "low": np.float32(-1)}, "optimize")
check("a choice by what is read is no gate", loads_with_gates(text) == 0)

# The larger of two scalars: one instruction, of which GCC makes a branch where it stands as one expression.
text = dump([helper.make_node("ReduceMin", ["x", "axes"], ["r"]), helper.make_node("Sub", ["x", "r"], ["y"])],
            [160, 128, 17], {"axes": np.array([2])}, "source")
check("a scalar maximum is no branch", ("tg_maxf(" in text or "= tg_max_nan(f32x8," in text) and " || v" not in text)

# A floor of each element of rows that few columns multiply: one by one, by masks in place of a branch.
text = dump([helper.make_node("Floor", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])],
            [3916, 300], {"w": np.ones((300, 4), "f4")}, "source").split("void r_")[-1]
check("a scalar choice is no branch", " ? " not in re.sub(r"\(\(i\d < \d+\) \?", "", text))

# A sum of two matrices, turned: squares of both, whose lines are stored whole.
text = dump([helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Transpose", ["a"], ["y"], perm=[1, 0])],
            [768, 1500], {"w": np.ones((768, 1500), "f4")}, "optimize")
check("two matrices are turned in squares", len(re.findall(r"SPLIT \d (?:8|16) UPCAST", text)) == 2)

# A norm over two axes, then a softmax over one of them: the softmax's sums know a loop that the norm does not.
nested = [helper.make_node("ReduceL2", ["x", "axes"], ["n"]), helper.make_node("Sub", ["x", "n"], ["s"]),
          helper.make_node("LogSoftmax", ["s"], ["y"], axis=0)]
check("loops of more statistics go outside", 0 < excess(nested, [400, 2, 256], {"axes": np.array([0, 1])}) < 2)

# What was joined along its rows and made flat: read through, each lane has a division and two gates.
text = dump([helper.make_node("Concat", ["x", "x", "w"], ["c"], axis=1), helper.make_node("Gelu", ["c"], ["g"]),
             helper.make_node("Reshape", ["g", "flat"], ["f"]), helper.make_node("Pad", ["f", "one"], ["y"])], [160, 353],
            {"w": np.ones((160, 77), "f4"), "flat": np.array([-1]), "one": np.array([1, 1])}, "plan")
check("a join that is read across its rows is stored", "e_160_353_" in text)

# Pools of rows that are shorter than a vector: lanes of what there is, and no branch on which half is larger.
text = dump([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], [8, 323, 8, 8], {}, "source")
check("a short row of windows is in lanes", "f32x4" in text and " || v" not in text)

# A logarithm of a row's sum, padded: it belongs to the row.
text = dump([helper.make_node("LogSoftmax", ["x"], ["s"]), helper.make_node("Pad", ["s", "pads"], ["y"])], [50, 19200],
            {"pads": np.array([0, 1, 0, 0])}, "rangeify")
check("what a choice selects is not gated by it as well", loads_with_gates(text.split("kernel -")[-1]) == 1)

# The deviation of a padded norm: of the row, though zeros of the gates would spare the choice.
pads = {"pads": np.array([1, 2, 2, 2, 1, 1]), "w": np.ones(895, "f4")}
norm = [helper.make_node("LayerNormalization", ["x", "w"], ["n"]), helper.make_node("Pad", ["n", "pads"], ["y"])]
check("the root of a padded row's variance is computed once", 0 < excess(norm, [7, 172, 895], pads) < 1.6)

# A prefix sum that is shown flat: its loops are its own.
flat = [helper.make_node("CumSum", ["x", "axis"], ["c"]), helper.make_node("Reshape", ["c", "flat"], ["y"])]
text = dump(flat, [96, 3053], {"axis": np.array(0), "flat": np.array([-1])}, "plan")
check("what is shown in another shape is stored in its own", "r_6_16_3053_16_" in text and "r_293088_" not in text)

# Weights of 4 bits, eight or sixteen to a vector: compilers shift so few bytes one by one.
text = dump([helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=256, N=96, bits=4,
                              block_size=32)], [1, 256],
            {"q": np.full((96, 8, 16), 0x97, np.uint8), "s": np.full(96 * 8, 0.5, np.float32)}, "source")
check("weights of 4 bits become words before they are shifted",
      ">> 4" in text and not re.search(r"const u8x\d+ v\d+ = \(v\d+ >> 4\)", text))

# Scores of an attention with a mask that is a constant: what is added is no weight, whose columns would order them.
heads = [helper.make_node("MatMul", ["x", "k"], ["s"]), helper.make_node("Add", ["s", "mask"], ["m"]),
         helper.make_node("Softmax", ["m"], ["p"]), helper.make_node("MatMul", ["p", "x"], ["y"])]
text = dump([helper.make_node("Transpose", ["x"], ["k"], perm=[0, 2, 1])] + heads, [8, 128, 64],
            {"mask": np.triu(np.full((128, 128), -9, "f4"))}, "plan")
check("a mask does not turn the scores", "r_1024_128_128_128_" in text)

# Channels by an index, then a window with a border: which channel it is does not depend on where the border is.
text = dump([helper.make_node("Gather", ["x", "i"], ["g"], axis=1),
             helper.make_node("Conv", ["g", "w"], ["y"], group=6, pads=[1, 1, 1, 1])],
            [4, 8, 48, 48], {"i": np.array([1, 2, 7, 2, 0, 5]), "w": np.ones((6, 1, 3, 3), "f4")}, "rangeify")
check("an index outside of a border is read without its gate", loads_with_gates(text.split("kernel -")[-1]) == 1)

# Windows over an input, which keeps its order: a copy has a halo, and its channels last. Not where they are few.
def window(channels):
    text = dump([helper.make_node("Conv", ["x", "w"], ["y"], pads=[2, 2, 2, 2], dilations=[2, 2])],
                [1, channels, 64, 64], {"w": np.ones((64, channels, 3, 3), "f4")}, "layout")
    return text.count("kernel "), loads_with_gates(text.split("kernel ")[-1])


check("windows of many channels read a copy with a halo", window(64) == (2, 0))
check("windows of few channels read the input", window(3) == (1, 1))

# A long formula whose results lie far from each other, whatever the loop: lanes all the same, but not for a short one.
def turned(op):
    text = dump([helper.make_node(op, ["x"], ["t"]), helper.make_node("Transpose", ["t"], ["y"], perm=[1, 0, 2])],
                [100, 1500, 3], {}, "source")
    return len(re.findall(r"const f32x(8|16) v\d+ = ", text)) > 0


check("a long formula is in lanes though its results are scattered", turned("Tanh") and turned("HardSwish"))
check("a single operation is not", not turned("Neg"))

# A formula that uses its parts often, of rows' statistics, is walked once: its result is stored as rows, then turned.
text = dump([helper.make_node("LayerNormalization", ["x", "w"], ["n"]), helper.make_node("Gelu", ["n"], ["g"]),
             helper.make_node("Transpose", ["g"], ["y"], perm=[1, 0])], [49, 4096], {"w": np.ones(4096, "f4")}, "optimize")
check("a norm's formula is stored once and turned", text.count("kernel ") == 2)

# Every other column of a window with a border: only the first vector of a line meets it (of three lines, where these
# are unrolled), and columns are its lanes though they do not divide it.
conv, weights = helper.make_node("Conv", ["x", "w"], ["y"], group=16, pads=[1, 1, 1, 1], strides=[2, 2]), {
    "w": np.ones((16, 1, 3, 3), "f4")
}
text = dump([conv], [1, 16, 112, 112], weights, "source").split("void r_")[-1]
lines = 3 if dump([conv], [1, 16, 112, 112], weights, "optimize").count("3 UNROLL") == 2 else 1
last = 15 if "f32x16" in text else 7
check("the vectors of a line that its border cannot meet are read whole", text.count(f"[{last}] & 1) ?") == lines)

# A transposed convolution: threads take lines of the picture, of each a column of tiles is copied for all channels.
text = dump([helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], [1, 128, 64, 64],
            {"w": np.ones((128, 64, 2, 2), "f4")}, "plan")
check("lines of a picture go outside of the channels that read them", "threads 64" in text)

# The greatest of each of few columns: four rows at a time, whole vectors of them, whose results do not wait.
for few in (2, 3, 4, 7):
    text = dump([helper.make_node("ReduceMax", ["x", "axes"], ["y"])], [1000, 100, few], {"axes": np.array([1])}, "optimize")
    check(f"{few} columns are reduced four rows at a time", "SPLIT 2 4 UNROLL" in text and f"SPLIT 1 {min(few, 4)} UPCAST" in text)

# Windows with a border over lines of a few vectors that overlap: each has its place, and only the ends meet the border.
text = dump([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[5, 5], strides=[2, 2], pads=[2, 2, 2, 2])],
            [1, 64, 77, 77], {}, "optimize")
check("a line of a few vectors is unrolled whole", re.search(r"SPLIT 2 \d+ UPCAST; SPLIT 2 [235] UPCAST", text))

# Sums of a few more terms than lanes are gathered for one vector of outputs at a time, or added from two vectors.
text = dump([helper.make_node("ArgMax", ["x"], ["a"], axis=1), helper.make_node("Cast", ["a"], ["y"], to=1)], [15856, 17], {},
            "optimize")
check("a sum of 17 terms has one vector of outputs", "SPLIT 0 4 UPCAST" not in text)

# Scores by positions that are relative to each row (Transformer-XL): a product that is read along its diagonals is
# computed in tiles, and then shifted.
relative = [helper.make_node("MatMul", ["x", "p"], ["s"]), helper.make_node("Reshape", ["s", "turned"], ["t"]),
            helper.make_node("Slice", ["t", "one", "end", "rows"], ["u"]), helper.make_node("Reshape", ["u", "back"], ["v"]),
            helper.make_node("Slice", ["v", "none", "most", "columns"], ["w"]), helper.make_node("Exp", ["w"], ["y"])]
text = dump(relative, [6, 128, 64], {"p": np.ones((6, 64, 256), "f4"), "turned": np.array([6, 256, 128]), "one": np.array([1]),
                                     "end": np.array([256]), "rows": np.array([1]), "back": np.array([6, 128, 255]),
                                     "none": np.array([0]), "most": np.array([128]), "columns": np.array([2])}, "plan")
check("a product along its diagonals is a tile product", " r_6_128_256_64_" in text or " r_6_256_128_64_" in text)

# A product's operand whose rows lie in pieces in what it is made of is copied: its places are found once, not for each
# column.
pieces = [helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("Reshape", ["p", "flat"], ["f"]),
          helper.make_node("Slice", ["f", "none", "end", "axis"], ["s"]), helper.make_node("Reshape", ["s", "skewed"], ["k"]),
          helper.make_node("MatMul", ["k", "w"], ["y"])]
text = dump(pieces, [48, 32, 65], {"pads": np.array([0, 0, 0, 0, 0, 33]), "flat": np.array([48, 3136]), "none": np.array([0]),
                                   "end": np.array([3104]), "axis": np.array([1]), "skewed": np.array([48, 32, 97]),
                                   "w": np.ones((48, 97, 64), "f4")}, "plan")
check("an operand in pieces is copied", len(re.findall(r"  e_\d", text)) == 2)

# A batch of any size up to 8 is mostly smaller: rows of tiles and threads are of the picture. Tokens are tiled.
text = dump([helper.make_node("Conv", ["x", "w"], ["y"])], ["N", 512, 7, 7], {"w": np.ones((256, 512, 1, 1), "f4")},
            "optimize", more=["--dim", "N=1..8"])
check("a symbolic batch has no tiles and no threads", not re.search(r"SPLIT 0 [2-9] UPCAST|SPLIT 0 0 THREAD", text))
text = dump([helper.make_node("MatMul", ["x", "w"], ["y"])], ["N", "S", 384], {"w": np.ones((384, 1536), "f4")},
            "optimize", more=["--dim", "N=1..8", "--dim", "S=1..256"])
check("symbolic rows are tiled", re.search(r"SPLIT 1 ([4-9]|1\d) UPCAST", text) is not None)

# A column of rows that lie far from each other: several vectors of a line, though their number divides nothing.
text = dump([helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)], [1470, 1686], {"axes": np.array([0])}, "plan")
check("a reduce across lines takes whole ones", "threads 53" in text or "threads 27" in text)      # of 32 or 64 columns

# Of the places that are summed each has three outputs' terms: all three are summed of the lines that are read.
text = dump([helper.make_node("ReduceMax", ["x", "axes"], ["y"])], [785, 384, 3], {"axes": np.array([1])}, "source")
check("outputs that lie between a sum's lanes are summed at once", text.split("void r_")[-1].count("shuffle") > 8)

# A row by a matrix from memory: what is read in order is what the processor fetches ahead.
text = dump([helper.make_node("MatMul", ["x", "w"], ["y"])], [1, 768], {"w": np.ones((768, 2048), "f4")}, "source")
places = [int(n) for n in re.findall(r"\*\)\(p2 \+ \(v\d+ \+ (\d+)\)\)", text.split("void r_")[-1])]
check("terms of a sum are read in their order", len(places) > 8 and places == sorted(places))

# A product of bytes by our own machine code: its sums stay in registers.
if machine.has_own_code:
    product = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
               helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=1)]
    weights = {"w": np.random.default_rng(0).integers(-100, 100, (512, 1024), np.int8)}
    ratio = own_over_cc(product, [384, 512], weights, 1.5)
    check(f"sums of bytes in our own code: {ratio:.2f} of the compiler's time", ratio < 1.5)
    # Lanes that one instruction moves were each put into memory and read again beside it; a vector of elements that do
    # not lie side by side was gathered by positions that were put into memory.
    shuffled = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1])]
    ratio = own_over_cc(shuffled, [116, 196], {"s": np.array([2, 58, 196])}, 3)
    check(f"lanes moved in our own code: {ratio:.2f} of the compiler's time", ratio < 3)
    column = [helper.make_node("Gather", ["x", "c"], ["g"], axis=1), helper.make_node("Neg", ["g"], ["y"])]
    ratio = own_over_cc(column, [3234, 91], {"c": np.array(82)}, 2)
    check(f"a column read in our own code: {ratio:.2f} of the compiler's time", ratio < 2)

    # A load whose gate differs by lane was a load and a branch a lane, though all lanes read one element.
    prefix = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    ratio = own_over_cc(prefix, [128, 1024], {"axis": np.array(1)}, 3)
    check(f"a prefix sum along rows in our own code: {ratio:.2f} of the compiler's time", ratio < 3)

# A prefix sum of unrolled terms: each result adds one term to the one before it, not a zero for each that is left out.
text = dump([helper.make_node("CumSum", ["x", "axis"], ["y"])], [7, 256, 80], {"axis": np.array(1)}, "source")
check("terms that are left out are not added as zeros", text.split("void r_")[-1].count(" + 0.0f)") <= 32)

# A join that is quantised: bytes are joined, unless something else reads the join.
joined = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Concat", ["x", "r"], ["c"], axis=1),
          helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"])]
scale = {"scale": np.float32(0.1), "zero": np.uint8(3)}
text = dump(joined + [helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])], [4, 8, 32], scale, "callify")
check("what is quantised is joined as bytes", "CAT.u8" in text and "CAT.f32" not in text)
text = dump(joined + [helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
                      helper.make_node("Add", ["d", "c"], ["y"])], [4, 8, 32], scale, "callify")
check("what else is read stays joined", "CAT.f32" in text and "CAT.u8" not in text)

# A few long rows by an index: threads take rows, not a part of each.
text = dump([helper.make_node("Gather", ["x", "i"], ["y"])], [24, 768, 144], {"i": np.arange(13) * 7 % 24}, "plan")
check("threads do not divide each row of a few", "threads 13" in text)

# A list that would make too many replicas: its first ops serve.
text = dump([helper.make_node("CumSum", ["x", "axis"], ["c"]), helper.make_node("Mul", ["c", "w"], ["m"]),
             helper.make_node("Mul", ["m", "v"], ["y"])], [64, 640, 2, 2, 24],
            {"axis": np.array(4), "w": np.ones((640, 2, 2, 1), "f4"), "v": np.ones((640, 1, 2, 24), "f4")}, "plan")
check("a list that is too long is cut, not dropped", "r_64_640_2_2_24_24_" in text and "threads 64" in text)

# A convolution's windows overlap: they are read where they lie, not copied one by one.
text = dump([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [5, 4, 50, 300],
            {"w": np.ones((32, 4, 3, 3), "f4")}, "optimize")
check("windows that overlap are not staged", "r_5_32_50_300_4_3_3" in text and "STAGE" not in text)

# Columns whose terms are in few sets of a cache are copied for their tiles, others read where they lie.
for columns, staged in ((2048, True), (1500, False)):
    text = dump([helper.make_node("MatMul", ["w", "x"], ["y"])], [64, columns], {"w": np.ones((512, 64), "f4")}, "optimize")
    check(f"{columns} columns: a copy where it pays", ("STAGE" in text) == staged)

# Long rows that lie across memory are copied as rows, once; short ones are transposed in registers.
for columns, copied in ((256, True), (12, False)):
    text = dump([helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("Softmax", ["t"], ["y"])],
                [50, columns, 300], {}, "plan")
    check(f"rows of {columns} across memory: a copy where it pays", ("e_50_300_" in text) == copied)

# A convolution whose planes are pages: sixteen lanes of channels would be stored in one set of the first cache, and so
# they are along its rows, without a copy of what it reads.
if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() and not os.environ.get("TGRUN_PROCESSOR"):
    for height, copied in ((64, False), (60, True)):
        text = dump([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [1, 16, height, 63 + (height == 64)],
                    {"w": np.ones((64, 16, 3, 3), "f4")}, "plan")
        check(f"planes of {height} rows: a copy where it pays", (f" e_{height}_" in text) == copied)

# Keys of an attention whose heads lie side by side in each row are copied, so that products have lanes.
for heads in (1, 12):
    nodes = [helper.make_node("Softmax", ["x"], ["q"]),
             helper.make_node("MultiHeadAttention", ["q", "x", "x"], ["y"], domain="com.microsoft", num_heads=heads)]
    check(f"keys of {heads} heads are turned", " e_768_197_" in dump(nodes, [1, 197, 768], {}, "plan"))

# A convolution of bytes that lie channel by channel: they are copied, so that products of channels are dot products.
names = ["x", "s", "u", "w", "s", "i", "s", "u"]
text = dump([helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])], [1, 64, 56, 56],
            {"s": np.float32(.1), "u": np.uint8(128), "i": np.int8(0), "w": np.ones((64, 64, 3, 3), "i1")}, "plan",
            TensorProto.UINT8)
check("channels of bytes are dot products", "r_64_56_56_3_3_64_" in text)

# Short sums wait for what they store: all columns of some rows before the next, and threads take rows.
for columns, by_rows in ((96, True), (4096, False)):
    text = dump([helper.make_node("MatMul", ["x", "w"], ["y"])], [4096, 16], {"w": np.ones((16, columns), "f4")}, "plan")
    threads = int(re.search(rf"r_4096_{columns}_16_\w+ .*threads (\d+)", text)[1])
    check(f"short sums of {columns} columns", (threads > 256) == by_rows)

# A costly operand whose axes are joined is stored: the shorter of these is no loop that repeats it, in one scalar each.
text = dump([helper.make_node("Erf", ["x"], ["e"]), helper.make_node("Reshape", ["e", "s"], ["r"]),
             helper.make_node("MatMul", ["r", "w"], ["y"])], [500, 80, 3],
            {"s": np.array([500, 240]), "w": np.ones((240, 8), "f4")}, "plan")
check("an operand of joined axes is computed in lanes", " e_120000_" in text)

# Rows that are normalised and stored as they are: what makes them, a sum for each channel, stores rows too.
text = dump([helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], group=31),
             helper.make_node("LayerNormalization", ["c", "g", "b"], ["n"]), helper.make_node("Reshape", ["n", "s"], ["y"])],
            [2, 31, 8, 1391], {"w": np.ones((31, 1, 3, 3), "f4"), "g": np.ones(1391, "f4"), "b": np.ones(1391, "f4"),
                               "s": np.array([2, 31, 8 * 1391])}, "plan")
check("channels do not come last before rows that are normalised", " r_496_1391_1391_1391" in text)

# Sums of short rows that data pick, about as many as there are: all are made in order, in place of one walk each.
text = dump([helper.make_node("ReduceSum", ["x", "a"], ["r"], keepdims=0), helper.make_node("Gather", ["r", "i"], ["g"]),
             helper.make_node("Gelu", ["g"], ["y"])], [24000, 12], {"a": np.array([1]), "i": np.arange(20000) * 7 % 24000},
            "plan")
check("sums that data pick are stored", " r_24000_12_" in text)

# What is turned, then made flat, is turned in squares, as it would be if it were not made flat.
text = dump([helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("Reshape", ["t", "s"], ["r"]),
             helper.make_node("Exp", ["r"], ["y"])], [197, 1887], {"s": np.array([-1])}, "plan")
check("what is turned and made flat", " e_1887_197_" in text)

# Terms of few columns that are costly are computed in whole vectors of a column, not two at a time.
for few in (2, 5):
    text = dump([helper.make_node("Erf", ["x"], ["e"]), helper.make_node("ReduceSum", ["e", "a"], ["y"])], [49, 916, few],
                {"a": np.array([1])}, "optimize")
    check(f"costly terms of {few} columns have lanes", re.search(r"SPLIT 2 (8|16) UNROLL", text))

# What is costly behind a sum counts too: rows are in lanes, else it is computed scalar by scalar.
text = dump([helper.make_node("ReduceMax", ["x", "a"], ["m"], keepdims=0), helper.make_node("Erf", ["m"], ["e"]),
             helper.make_node("Erf", ["e"], ["f"]), helper.make_node("Erf", ["f"], ["y"])], [50432, 64],
            {"a": np.array([1])}, "optimize")
check("what is costly behind a sum has lanes", re.search(r"SPLIT 0 (8|16) UPCAST", text))

# Rows of three columns are vectors of four; a short sum whose outputs are stored in another order is one vector.
text = dump([helper.make_node("ArgMax", ["x"], ["m"], axis=1), helper.make_node("Cast", ["m"], ["y"], to=1)],
            [100, 3574, 3], {}, "optimize")
check("rows of three columns are padded", text.count("SPLIT 1 4 UPCAST") == 2)
text = dump([helper.make_node("ArgMax", ["x"], ["m"], axis=3), helper.make_node("Cast", ["m"], ["c"], to=1),
             helper.make_node("Transpose", ["c"], ["y"], perm=[1, 2, 0, 3])], [5, 1024, 64, 7], {}, "optimize")
check("a short sum that is stored in another order", "SPLIT 2 8 UNROLL" in text)

# The greatest of two columns: four rows are a vector, though the last four are not whole.
text = dump([helper.make_node("ReduceMax", ["x", "a"], ["y"])], [100, 1001, 2], {"a": np.array([1])}, "optimize")
check("two columns of rows that are no whole fours", "SPLIT 1 2 UPCAST" in text)

# A place picked by rows, each of 91 numbers: rows stay a loop of their own, as no lane crosses from one to the next.
text = dump([helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1, 3, 4]), helper.make_node("Reshape", ["t", "s"], ["r"]),
             helper.make_node("Sigmoid", ["r"], ["y"])], [50, 2, 2, 68, 91], {"s": np.array([-1, 91])}, "plan")
check("rows that are picked are no flat loop", re.search(r" e_(\d+_)+91_", text) is not None)

# Twelve columns turned to rows, eight of them at once: the second eight begin early, so no other thread stores those.
text = dump([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], [2304, 12], {}, "plan")
check("two threads do not store the same rows", int(re.search(r" e_12_2304_\w+ .*threads (\d+)", text)[1]) > 64)

# The greatest of 256 products, a row that is unrolled whole: its lanes are neighbours, no shuffles of what is not.
text = dump([helper.make_node("Mul", ["x", "c"], ["p"]), helper.make_node("ReduceMax", ["p", "a"], ["y"])], [640, 256],
            {"c": np.ones((640, 256), "f4"), "a": np.array([1])}, "optimize")
check("a row that is unrolled whole has neighbours in its lanes", re.search(r"SPLIT 1 (8|16) UNROLL", text))

# Statistics of long columns of which eight are a row: rows are vectors, four at once.
text = dump([helper.make_node("LogSoftmax", ["x"], ["y"], axis=0)], [2616, 8], {}, "optimize")
if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() and not os.environ.get("TGRUN_PROCESSOR"):
    check("statistics of eight columns have them in lanes", "SPLIT 1 8 UPCAST; SPLIT 2 4 UNROLL" in text)

# Statistics of short rows: squares of as many rows as lanes, so that nothing goes across lanes.
text = dump([helper.make_node("LogSoftmax", ["x"], ["y"])], [16384, 8], {}, "optimize")
check("statistics of short rows are made in squares", "SPLIT 0 8 UPCAST; SPLIT 2 8 UPCAST; SPLIT 3 8 UNROLL" in text)

# A log-softmax along an axis of one element, of a maximum: that is one value, however NaN may come out of it.
text = dump([helper.make_node("ReduceMax", ["x", "a"], ["m"]), helper.make_node("LogSoftmax", ["m"], ["s"], axis=1),
             helper.make_node("Exp", ["s"], ["y"])], [640, 768], {"a": np.array([1])}, "plan")
check("a maximum is found once", text.count(" r_640_768_") == 1)

# Channels that have a window of their own, along lines: windows are unrolled whole, for several lines at once.
for shape, strides in (([512, 16, 32, 5], [1, 1]), ([4, 256, 14, 14], [1, 1]), ([1, 96, 56, 56], [2, 2])):
    text = dump([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=strides, group=shape[1])], shape,
                {"w": np.ones((shape[1], 1, 3, 3), "f4")}, "optimize")
    check(f"windows of {shape}", text.count("3 UNROLL") == 2)

# A costly value that is summed around another axis, and wanted behind the sum, is computed once.
text = dump([helper.make_node("Gelu", ["x"], ["g"]), helper.make_node("ReduceMean", ["g", "a"], ["m"]),
             helper.make_node("Sub", ["g", "m"], ["y"])], [31, 160, 141], {"a": np.array([0, 2])}, "plan")
check("what is summed around an axis is stored", " e_699360_" in text)

# Products that are stored turned: squares whose rows and lanes change places in registers.
for rows, columns, squares in ((4096, 96, True), (49, 288, False)):
    text = dump([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Transpose", ["p"], ["y"], perm=[1, 0])],
                [rows, 96], {"w": np.ones((96, columns), "f4")}, "optimize")
    check(f"products that are stored turned, {rows} rows", squares == bool(
        re.search(r"SPLIT \d (8|16) UPCAST; SPLIT \d \1 UPCAST", text)))

print(f"{count - len(wrong)} of {count} cliffs are gone")
if wrong:
    raise SystemExit("\n".join(wrong))
