from .. import InferenceSession, IOBinding, ModelMetadata, NodeArg, OrtDevice, OrtValue, RunOptions, SessionOptions  # noqa: F401
