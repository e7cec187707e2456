"""The table of all operators that may be drawn, and why others are not: the registry holds no more than the two."""
import pathlib
import re

import operators_flow  # noqa: F401
import operators_ml  # noqa: F401
import operators_more  # noqa: F401
import operators_network  # noqa: F401
import operators_tensor  # noqa: F401
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
from table import TABLE

FRONTEND = pathlib.Path(__file__).parents[2] / "frontend"
OLD = "of versions before 7 alone, which no peer runs"
MAPS = "maps are no tensors"
IN_A_STEP = "follows an operator that makes sequences or optionals"
GRAPHICS = "onnxruntime runs it on graphics cards alone"
def rows(file, pattern):
    return re.findall(pattern, (FRONTEND / file).read_text(), re.MULTILINE)


def registry():
    """Full names of all operators that we have."""
    standard = rows("ops/ops.def", r'^OPERATOR\("([^"]*)",\s*"(\w+)"')
    return {f"{domain}.{name}" if domain else name for domain, name in standard} | {
        f"com.microsoft.{name}" for name in rows("import/microsoft.def", r"^MICROSOFT\((\w+),")
    }


def on_graphics_alone():
    """Operators of com.microsoft for which onnxruntime has no kernel on the processor."""
    kernels = {(k.domain, k.op_name) for k in get_all_opkernel_def() if k.provider == "CPUExecutionProvider"}
    return [n for n in registry() if n.startswith("com.microsoft.") and ("com.microsoft", n[14:]) not in kernels]


UNDRAWN = {
    **{name: GRAPHICS for name in on_graphics_alone()},
    "Affine": OLD, "Crop": OLD, "ImageScaler": OLD, "ParametricSoftplus": OLD, "ScaledTanh": OLD,
    "ai.onnx.ml.CastMap": MAPS, "ai.onnx.ml.DictVectorizer": MAPS, "ai.onnx.ml.ZipMap": MAPS,
    "ConcatFromSequence": IN_A_STEP, "OptionalGetElement": IN_A_STEP, "OptionalHasElement": IN_A_STEP, "SequenceAt": IN_A_STEP, "SequenceErase": IN_A_STEP, "SequenceInsert": IN_A_STEP,
    "SequenceLength": IN_A_STEP, "SequenceMap": IN_A_STEP,
    "ImageDecoder": "wants pictures, which tests/onnx/test_pictures.py has", "ai.onnx.preview.training.Gradient": "no peer has it",
    "com.microsoft.SparseToDenseMatMul": "onnxruntime's wants a sparse operand, which tests/python/test_reach.py gives",
}


def not_drawn():
    """Operators of the registry that are neither drawn nor have a reason, and names of the two lists that the registry
    lacks."""
    return sorted(registry() ^ (TABLE.keys() | UNDRAWN.keys()))
