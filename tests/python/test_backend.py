"""The standard's own backend tests (onnx.backend.test.BackendTest) through tgrun.backend, under pytest: node tests as the installed package makes them, `simple`, `pytorch-*`, and the light models.

    test_backend.py [pytest options]            all, on the CPU and on CUDA where that works; -k cpu, -k test_relu, ...

The only tests that are left out are test_bernoulli*, whose expected values are a draw of numpy's
generator that the model does not determine; they run here on their own, and type, shape and distribution are checked.
"""
import os
import re
import sys
import warnings

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
if "BUILD_DIR" in os.environ:
    os.environ["ONNX_HOME"] = os.path.join(os.environ["BUILD_DIR"], "onnx_home")        # where the runner puts the light models' data
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ["BUILD_DIR"], "python_cache")
import tgrun.backend

# Expected values that carry roundings of whoever made them, and so lie further from the truth than the tolerance allows.
ROUNDED = {
    "test_dft_inverse": {"atol": 1e-6},                             # numpy's transform in complex64 gives 1.9e-7 where the sum is 0
    "test_dft_inverse_opset19": {"atol": 1e-6},
    "test_attention_4d_causal_fp16_expanded": {"rtol": 1.5e-3},     # Softmax with each of its steps rounded to 11 bits; one rounding at the end is 2 in the last place away
}


class StandardTests(onnx.backend.test.BackendTest):
    """Sequences are compared tensor by tensor. The package's own way takes a tensor in one for a list of outputs: no engine can pass with scalars (test_loop16_seq_none), and too short a one passes."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        assert len(ref_outputs) == len(outputs)
        for want, got in zip(ref_outputs, outputs):
            if isinstance(want, list):
                assert isinstance(got, list)
                cls.assert_similar_outputs(want, got, rtol, atol, model_dir)
            else:
                super().assert_similar_outputs([want], [got], rtol, atol, model_dir)


def standard_tests():
    tests = StandardTests(tgrun.backend.TgrunBackend, __name__, ROUNDED)
    tests.exclude("test_bernoulli")
    return tests.test_cases


with warnings.catch_warnings(action="ignore"):
    globals().update(standard_tests())
    bernoulli = [case for case in load_model_tests(kind="node") if re.match("test_bernoulli", case.name)]


@pytest.mark.parametrize("case", bernoulli, ids=lambda case: case.name)
def test_random_cpu(case):
    """Type and shape are those expected; over a large input each value is 1 as often as it says: in the standard's function body, which asks whether the draw is greater, as it does not."""
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
        terminalreporter.write_line(f"{n['passed']} of {n['passed'] + n['failed'] + n['error']} backend tests are right")


sys.dont_write_bytecode = True
if __name__ == "__main__":
    more = sys.argv[1:] or ["-k", "_cpu" if not tgrun.backend.supports_device("CUDA") else ""]
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore", *more], plugins=[Count()]))
