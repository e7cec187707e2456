"""The table of all operators that may be drawn, and why others are not: the registry holds no more than the two."""
import pathlib
import re

import operators_flow  # noqa: F401
import operators_ml  # noqa: F401
import operators_more  # noqa: F401
import operators_network  # noqa: F401
import operators_tensor  # noqa: F401
from table import TABLE

OLD = "of versions before 7 alone, which no peer runs"
MAPS = "maps are no tensors"
IN_A_STEP = "follows an operator that makes sequences or optionals"
GRAPHICS = "onnxruntime runs it on graphics cards alone"
UNDRAWN = {
    **{f"com.microsoft.{name}": GRAPHICS for name in ("BiasAdd", "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "ComplexMul", "ComplexMulConj", "GatedRelativePositionBias", "GemmFastGelu", "GroupNorm", "IsAllFinite", "MulInteger",
       "NhwcConv", "NhwcFusedConv", "QLinearReduceMean", "ReduceSumInteger", "RelativePositionBias", "SkipGroupNorm")},
    "Affine": OLD, "Crop": OLD, "ImageScaler": OLD, "ParametricSoftplus": OLD, "ScaledTanh": OLD,
    "ai.onnx.ml.CastMap": MAPS, "ai.onnx.ml.DictVectorizer": MAPS, "ai.onnx.ml.ZipMap": MAPS,
    "ConcatFromSequence": IN_A_STEP, "OptionalGetElement": IN_A_STEP, "OptionalHasElement": IN_A_STEP, "SequenceAt": IN_A_STEP, "SequenceErase": IN_A_STEP, "SequenceInsert": IN_A_STEP,
    "SequenceLength": IN_A_STEP, "SequenceMap": IN_A_STEP,
    "ImageDecoder": "wants pictures, which tests/onnx/test_pictures.py has", "ai.onnx.preview.training.Gradient": "no peer has it",
}


def registry():
    """Full names of all operators that we have."""
    rows = (pathlib.Path(__file__).parents[2] / "frontend" / "ops" / "ops.def").read_text()
    return {
        f"{domain}.{name}" if domain else name
        for domain, name in re.findall(r'^OPERATOR\("([^"]*)",\s*"(\w+)"', rows, re.MULTILINE)
    }


def not_drawn():
    """Operators of the registry that are neither drawn nor have a reason, and names of the two lists that the registry
    lacks."""
    return sorted(registry() ^ (TABLE.keys() | UNDRAWN.keys()))
