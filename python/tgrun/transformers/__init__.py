"""onnxruntime.transformers, where onnxruntime is installed."""
from ..names import borrow

borrow(__name__)
