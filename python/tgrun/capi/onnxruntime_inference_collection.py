from .. import (  # noqa: F401
    InferenceSession, IOBinding, ModelMetadata, NodeArg, OrtDevice, OrtValue, RunOptions, SessionOptions)
