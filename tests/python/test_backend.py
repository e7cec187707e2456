"""The standard's own backend tests (onnx.backend.test.BackendTest) through tgrun.backend, under pytest: node tests as the installed package makes them, `simple`, `pytorch-*`, and the light models.

    test_backend.py [pytest options]            all, on the CPU and on CUDA where that works; -k cpu, -k test_relu, ...

UNCOVERED are expected to fail: one that passes fails the run, so that its row goes. The only tests that are left out are test_bernoulli*, whose expected values are a draw of numpy's
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
os.environ.setdefault("ONNX_HOME", os.path.join(os.environ.get("BUILD_DIR", "build"), "onnx_home"))        # where the runner puts the light models' data
import tgrun.backend

UNCOVERED = [
]


def standard_tests():
    tests = onnx.backend.test.BackendTest(tgrun.backend.TgrunBackend, __name__)
    tests.exclude("test_bernoulli")
    for pattern in UNCOVERED:
        tests.xfail(pattern)
    return tests.test_cases


with warnings.catch_warnings(action="ignore"):
    globals().update(standard_tests())
    bernoulli = [case for case in load_model_tests(kind="node") if re.match("test_bernoulli", case.name)]


@pytest.mark.parametrize("case", bernoulli, ids=lambda case: case.name)
def test_random_cpu(case):
    """Type and shape are those expected; over a large input each value is 1 as often as it says."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    (inputs, expected), = case.data_sets
    (y,) = tgrun.backend.run_model(model, inputs)
    assert (y.dtype, y.shape) == (expected[0].dtype, expected[0].shape)
    for port in (model.graph.input[0], model.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_value = 4 * 10000
    del model.graph.value_info[:]
    chance = np.array([0, 0.25, 0.7, 1])
    (y,) = tgrun.backend.run_model(model, [np.repeat(chance, 10000).astype(inputs[0].dtype)])
    drawn = y.astype(np.float64).reshape(4, 10000)
    assert set(np.unique(drawn)) == {0, 1}
    assert (abs(drawn.mean(axis=1) - chance) <= 5 * np.sqrt(chance * (1 - chance) / 10000)).all()


class Count:
    """For scripts/count_tests.py."""

    def pytest_terminal_summary(self, terminalreporter):
        n = {kind: len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error", "xfailed")}
        terminalreporter.write_line(f"{n['xfailed']} are not covered yet")
        terminalreporter.write_line(f"{n['passed']} of {n['passed'] + n['failed'] + n['error']} backend tests are right")


sys.dont_write_bytecode = True
if __name__ == "__main__":
    more = sys.argv[1:] or ["-k", "_cpu" if not tgrun.backend.supports_device("CUDA") else ""]
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore", *more], plugins=[Count()]))
