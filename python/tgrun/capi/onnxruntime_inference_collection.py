"""Names that programs import from onnxruntime.capi."""
from .. import (  # noqa: F401
    InferenceSession, IOBinding, ModelMetadata, NodeArg, OrtDevice, OrtValue, RunOptions, SessionOptions)
from ..options import normal_providers as check_and_normalize_provider_args  # noqa: F401
