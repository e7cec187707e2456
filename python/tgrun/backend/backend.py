"""The standard's backend interface over InferenceSession."""
import os

import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ..session import InferenceSession, works


def device_name(device):
    """`CPU`, `CUDA` or `CUDA:1`, as the standard writes them; lower case is ours."""
    return device.lower()


class Representation(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session):
        self.session = session
        self.names = [port.name for port in session.get_inputs()]

    def run(self, inputs, **kwargs):
        """inputs: values in the model's order, or by name, or the only one. The outputs in their order; by name too
        where names allow."""
        if isinstance(inputs, dict) and inputs.keys() <= set(self.names):
            feed = inputs
        else:
            values = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            feed = dict(zip(self.names, values, strict=True))
        outputs = self.session.run(None, feed)
        return namedtupledict("Outputs", [port.name for port in self.session.get_outputs()])(*outputs)


class TgrunBackend(Backend):
    @classmethod
    def supports_device(cls, device):
        return works(device_name(device))

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """model: a ModelProto, or a file's name."""
        if isinstance(model, (str, os.PathLike)):
            onnx.checker.check_model(model)
        else:
            super().prepare(model, device, **kwargs)            # the standard's checker
            model = model.SerializeToString()
        return Representation(InferenceSession(model, device=device_name(device)))

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """One node as a model: its inputs have the arrays' types and shapes, its outputs what follows."""
        names = [name for name in node.input if name]
        given = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(names, inputs, strict=True)
        ]
        made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        versions = {"": kwargs.get("opset_version", onnx.defs.onnx_opset_version())}
        if node.domain:
            versions[node.domain] = onnx.defs.get_schema(node.op_type, node.domain).since_version
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = onnx.IR_VERSION, versions
        onnx.checker.check_node(node, context)
        opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        model = helper.make_model(helper.make_graph([node], node.op_type, given, made), opset_imports=opsets)
        return Representation(InferenceSession(model.SerializeToString(), device=device_name(device))).run(list(inputs))


OnnxRuntimeBackend, OnnxRuntimeBackendRep = TgrunBackend, Representation         # onnxruntime's names
is_compatible = TgrunBackend.is_compatible
prepare = TgrunBackend.prepare
run_model = TgrunBackend.run_model
run_node = TgrunBackend.run_node
supports_device = TgrunBackend.supports_device
