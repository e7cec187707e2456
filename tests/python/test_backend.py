"""The standard's own backend tests (onnx.backend.test.BackendTest) through tgrun.backend, under pytest: node tests as
the installed package makes them, `simple`, `pytorch-*`, and the light models.

    test_backend.py [pytest options]            all, on the CPU and on CUDA where that works; -k cpu, -k test_relu, ...

Two kinds of tests run here on their own instead. The expected values of test_bernoulli* are a draw of numpy's generator
that the model does not determine: type, shape and distribution are checked. Those of BEYOND lie further from the exact
values than the standard's tolerance, so that who computes exactly fails: that is proved, and ours must be within the
tolerance of the exact ones.
"""
import os
import re
import sys
import warnings

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx.backend.test.loader import load_model_tests
from onnx.reference.op_run import OpRun

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    # where the runner puts the light models' data
    os.environ["ONNX_HOME"] = os.path.join(os.environ["BUILD_DIR"], "onnx_home")
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun.backend

class StandardTests(onnx.backend.test.BackendTest):
    """Sequences are compared tensor by tensor. The package's own way takes a tensor in one for a list of outputs: no
    engine can pass with scalars (test_loop16_seq_none), and too short a one passes."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        assert len(ref_outputs) == len(outputs)
        for want, got in zip(ref_outputs, outputs):
            if isinstance(want, list):
                assert isinstance(got, list)
                cls.assert_similar_outputs(want, got, rtol, atol, model_dir)
            else:
                super().assert_similar_outputs([want], [got], rtol, atol, model_dir)


class Softmax(OpRun):
    """Rounded once, at its end; the evaluator's own rounds each of its steps."""
    op_domain = ""

    def _run(self, x, axis=-1):
        e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        return ((e / e.sum(axis, keepdims=True)).astype(x.dtype),)


class MatMul(OpRun):
    op_domain = ""

    def _run(self, a, b):
        return ((a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype),)


def exact_inverse(model, inputs):
    """The transform in 53 bits. Every tenth value of its imaginary part is 0, where numpy's in 24 bits has 1.9e-7."""
    y = np.fft.ifft(inputs[0][..., 0].astype(np.complex128) + 1j * inputs[0][..., 1], axis=1)
    return np.stack([y.real, y.imag], -1).astype(np.float32)


def exact_nodes(model, inputs):
    """Each node of the model right to the last of its 11 bits. The standard's are 2 in the last place away from that,
    at three places."""
    return onnx.reference.ReferenceEvaluator(model, new_ops=[Softmax, MatMul]).run(
        None, dict(zip((port.name for port in model.graph.input), inputs)))[0]


BEYOND = {
    "test_dft_inverse": exact_inverse, "test_dft_inverse_opset19": exact_inverse,
    "test_attention_4d_causal_fp16_expanded": exact_nodes
}


def standard_tests():
    classes = StandardTests(tgrun.backend.TgrunBackend, __name__).test_cases
    nodes = classes["OnnxBackendNodeModelTest"]
    for name in [
            name for name in vars(nodes) if re.fullmatch("test_bernoulli.*|(" + "|".join(BEYOND) + ")_(cpu|cuda)", name)
    ]:
        delattr(nodes, name)
    return classes


with warnings.catch_warnings(action="ignore"):
    globals().update(standard_tests())
    nodes = load_model_tests(kind="node")
bernoulli = [case for case in nodes if re.match("test_bernoulli", case.name)]
beyond = [case for case in nodes if case.name in BEYOND]
devices = [device for device in ("CPU", "CUDA") if tgrun.backend.supports_device(device)]


@pytest.mark.parametrize("device", devices, ids=str.lower)
@pytest.mark.parametrize("case", beyond, ids=lambda case: case.name)
def test_exact(case, device):
    (inputs, (expected,)), = case.data_sets
    exact = BEYOND[case.name](case.model, inputs)
    assert not np.allclose(exact, expected, case.rtol, case.atol)
    (y,) = tgrun.backend.run_model(case.model, inputs, device)
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, exact, case.rtol, case.atol)


@pytest.mark.parametrize("case", bernoulli, ids=lambda case: case.name)
def test_random_cpu(case):
    """Type and shape are those expected; over a large input each value is 1 as often as it says: in the standard's
    function body, which asks whether the draw is greater, as it does not."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    (inputs, expected), = case.data_sets
    (y,) = tgrun.backend.run_model(model, inputs)
    assert (y.dtype, y.shape) == (expected[0].dtype, expected[0].shape)
    for port in (model.graph.input[0], model.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_value = 4 * 10000
    del model.graph.value_info[:]
    value = np.array([0, 0.25, 0.7, 1])
    chance = 1 - value if any(node.op_type == "Greater" for node in model.graph.node) else value
    (y,) = tgrun.backend.run_model(model, [np.repeat(value, 10000).astype(inputs[0].dtype)])
    drawn = y.astype(np.float64).reshape(4, 10000)
    assert set(np.unique(drawn)) == {0, 1}
    assert (abs(drawn.mean(axis=1) - chance) <= 5 * np.sqrt(chance * (1 - chance) / 10000)).all()


class Count:
    """For scripts/count_tests.py."""

    def pytest_terminal_summary(self, terminalreporter):
        n = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error")}
        terminalreporter.write_line(
            f"{n['passed']} of {n['passed'] + n['failed'] + n['error']} backend tests are right")


sys.dont_write_bytecode = True
if __name__ == "__main__":
    more = sys.argv[1:] or ["-k", "cpu" if not tgrun.backend.supports_device("CUDA") else ""]
    sys.exit(
        pytest.main([__file__, "-q", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore", *more], plugins=[Count()]))
