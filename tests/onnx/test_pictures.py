"""ImageDecoder beyond the standard's tests: every form of BMP and PNM, PNG with opacity, and bytes that are broken or
no picture, which give an empty result and never a fault. Files are made here. To add one: a row of GOOD or of BAD."""
import pathlib
import struct
import sys
import tempfile
import zlib

import numpy as np
from onnx import TensorProto, helper

import program

rng = np.random.default_rng(2)
H, W = 3, 5
rgb = rng.integers(0, 256, (H, W, 3), dtype=np.uint8)
grey = rng.integers(0, 256, (H, W), dtype=np.uint8)
bits = rng.integers(0, 2, (H, W), dtype=np.uint8)
same = lambda a: np.repeat(a[..., None], 3, -1)


def bmp(rows, depth, down=False, palette=b""):
    """rows: [H, W, bytes a pixel]"""
    body = b"".join(bytes(r.tobytes()).ljust((W * depth + 31) // 32 * 4, b"\0") for r in (rows if down else rows[::-1]))
    head = struct.pack("<IiiHHIIiiII", 40, W, -H if down else H, 1, depth, 0, len(body), 0, 0, len(palette) // 4, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(palette) + len(body), 0, 0, 54 + len(palette)) + head + palette + body


def pnm(kind, values, most=None):
    head = f"P{kind}\n# a comment\n{W} {H}\n{most or ''}\n".encode() if most else f"P{kind} {W} {H}\n".encode()
    return head + (values if isinstance(values, bytes) else " ".join(map(str, values.ravel())).encode())


def png(rows, colours):
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    body = zlib.compress(b"".join(b"\0" + r.tobytes() for r in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, 8, colours, 0, 0, 0)) + chunk(
        b"IDAT", body) + chunk(b"IEND", b"")


palette = rng.integers(0, 256, (256, 4), dtype=np.uint8)
opaque = np.concatenate([rgb, np.full((H, W, 1), 255, np.uint8)], -1)
GOOD = {
    "bmp 24": (bmp(rgb[..., ::-1], 24), rgb),
    "bmp 24 from above": (bmp(rgb[..., ::-1], 24, True), rgb),
    "bmp 32": (bmp(opaque[..., [2, 1, 0, 3]], 32), rgb),
    "bmp by a palette": (bmp(grey[..., None], 8, palette=palette.tobytes()), palette[grey][..., 2::-1]),
    "pbm text": (pnm(1, bits), same(255 - 255 * bits)),
    "pgm text": (pnm(2, grey // 4, 63), same((grey // 4).astype(int) * 255 // 63)),
    "ppm text": (pnm(3, rgb, 255), rgb),
    "pbm": (pnm(4, np.packbits(bits, axis=1).tobytes()), same(255 - 255 * bits)),
    "pgm": (pnm(5, grey.tobytes(), 255), same(grey)),
    "pgm of 16 bits": (pnm(5, (grey.astype(">u2") * 257).tobytes(), 65535), same(grey)),
    "ppm": (pnm(6, rgb.tobytes(), 255), rgb),
    "png": (png(rgb, 2), rgb),
    "png of greys": (png(grey, 0), same(grey)),
    "png with opacity": (png(opaque, 6), rgb),
}
BAD = {
    "noise": rng.integers(0, 256, 500, dtype=np.uint8).tobytes(),
    "two bytes": b"BM",
    "a bmp of 2^31 columns": bmp(rgb, 24)[:18] + b"\xff\xff\xff\x7f" + bmp(rgb, 24)[22:],
    "a bmp whose palette is elsewhere": bmp(grey[..., None], 8)[:14] + b"\xf0\xff\xff\xff" + bmp(grey[..., None], 8, palette=bytes(8))[18:],
    "a pnm of 0 rows": b"P6 5 0 255\n",
    "a pnm of 10^30 columns": b"P6 1" + b"0" * 30 + b" 2 255\n",
    "a pnm whose largest is 0": b"P5 1 1 0\n\0",
    "a jpeg of three bytes": b"\xff\xd8\xff",
    **{f"{name}, cut at {k}": GOOD[name][0][:k] for name in ("bmp 24", "bmp by a palette", "pbm", "pgm text", "ppm", "png") for k in (1, 2, 7, 20, 53, 60) if k < len(GOOD[name][0])},
}


def decoded(data, **attrs):
    x = np.frombuffer(data, np.uint8)
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        graph = helper.make_graph([helper.make_node("ImageDecoder", ["x"], ["y"], **attrs)], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.UINT8, [None] * 3)])
        (root / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString())
        code, _, said = program.run(root / "m.onnx", root, {"x": x}, "reference", "--runs", "1", "-q")
        return np.load(root / "out" / "y.npy") if code == 0 else said or f"exit {code}"


wrong = []
for name, (data, want) in GOOD.items():
    got = decoded(data)
    if isinstance(got, str) and "is not installed" in got:
        print(f"skipped: {name}: {got}")
    elif isinstance(got, str) or not np.array_equal(got, want):
        wrong.append(f"{name}: {got}")
if not np.array_equal(decoded(GOOD["ppm"][0], pixel_format="BGR"), rgb[..., ::-1]):
    wrong.append("BGR")
luma = (rgb.astype(np.uint32) @ np.array([19595, 38470, 7471], np.uint32) + 0x8000 >> 16).astype(np.uint8)
if not np.array_equal(decoded(GOOD["ppm"][0], pixel_format="Grayscale"), luma[..., None]):
    wrong.append("Grayscale")
for name, data in BAD.items():
    got = decoded(data)
    if (got if isinstance(got, str) else got.shape) != (0, 0, 3) and "is not installed" not in str(got):
        wrong.append(f"{name}: {got if isinstance(got, str) else got.shape}, not empty")
print(*wrong, f"{len(GOOD)} pictures, {len(BAD)} that are none, {len(wrong)} wrong", sep="\n")
sys.exit(bool(wrong))
