"""The examples that serve models give each request what a session gives for it alone: two replicas of Ray Serve,
where that is installed, and a model of Triton's Python backend, whose module is played here."""
import importlib.util, json, os, subprocess, sys, tempfile, types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import numpy as np
import onnx
from onnx import helper as h

import test_devices
import tgrun

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")

RAY = """
import io, socket, sys, urllib.request
import numpy as np, ray
from ray import serve
import ray_serve
x = np.load(sys.argv[2])
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
serve.start(http_options={"host": "127.0.0.1", "port": port})
handle = serve.run(ray_serve.Model.bind(sys.argv[1]), name="test", route_prefix="/")
answers = [handle.remote(row) for row in x[1:]]
body = io.BytesIO()
np.save(body, x[0])
first = np.load(io.BytesIO(urllib.request.urlopen(f"http://127.0.0.1:{port}/", body.getvalue(), timeout=60).read()))
np.save(sys.argv[3], np.stack([first] + [a.result(timeout_s=120) for a in answers]))
print("largest", max(handle.largest.remote().result(timeout_s=60) for _ in range(8)))
print("replicas", serve.status().applications["test"].deployments["Model"].replica_states)
serve.shutdown()
"""


def model(folder):
    """A transformer's block whose batch is free."""
    path = test_devices.transformer(folder, 1)
    m = onnx.load(path)
    m.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(m, path)
    return path


def alone(path, x):
    s = test_devices.session(path)
    return np.concatenate([s.run(None, {"x": row[None]})[0] for row in x])


def triton(path, x, want):
    """Requests of one, two and three rows that came together."""
    fake = types.ModuleType("triton_python_backend_utils")
    fake.Tensor = type("Tensor", (), {"__init__": lambda self, name, data: self.__dict__.update(name=name, data=data),
                                      "as_numpy": lambda self: self.data})
    fake.InferenceResponse = type("InferenceResponse", (), {
        "__init__": lambda self, output_tensors=(), error=None: self.__dict__.update(tensors=output_tensors, error=error)})
    fake.TritonError = str
    fake.get_input_tensor_by_name = lambda request, name: next(t for t in request if t.name == name)
    sys.modules["triton_python_backend_utils"] = fake
    spec = importlib.util.spec_from_file_location("model", os.path.join(EXAMPLES, "triton", "1", "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    served = module.TritonPythonModel()
    ports = {"input": [{"name": "x"}], "output": [{"name": "y"}]}
    texts = {"model": {"string_value": path}, "threads": {"string_value": "1"}}
    served.initialize({"model_config": json.dumps({**ports, "parameters": texts})})
    got = served.execute([[fake.Tensor("x", x[a:b])] for a, b in ((0, 1), (1, 3), (3, 6))])
    assert [len(r.tensors[0].data) for r in got] == [1, 2, 3], [r.error for r in got]
    test_devices.near("triton", np.concatenate([r.tensors[0].data for r in got]), want[:6])
    bad = served.execute([[fake.Tensor("x", x[:1, :, :5])]])
    assert bad[0].error and not bad[0].tensors, bad[0].__dict__


def ray(path, x, want, folder):
    """Why not, where it cannot run."""
    python = os.environ.get("RAY_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import ray.serve"], capture_output=True).returncode:
        return "ray is not installed (RAY_PYTHON names an interpreter that has it)"
    np.save(os.path.join(folder, "x.npy"), x)
    paths = os.pathsep.join((os.path.abspath(EXAMPLES), os.path.join(os.path.abspath(EXAMPLES), "..", "python")))
    p = subprocess.run([python, "-c", RAY, path, os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")],
                       env={**os.environ, "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}, capture_output=True,
                       text=True, timeout=300)
    assert p.returncode == 0, p.stderr[-2000:]
    test_devices.near("ray", np.load(os.path.join(folder, "y.npy")), want)
    largest = int(p.stdout.split("largest ")[1].split()[0])
    assert 1 < largest <= 8 and "RUNNING" in p.stdout and "2" in p.stdout.split("replicas ")[1], p.stdout
    return ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = model(folder)
        x = np.random.default_rng(4).standard_normal((32, test_devices.TOKENS, test_devices.HIDDEN)).astype("f4")
        want = alone(path, x)
        triton(path, x, want)
        why = ray(path, x, want, folder)
        if why:
            print(f"skipped: {why}")
    print(f"{1 + (not why)} of {1 + (not why)} servers give what a session gives")


if __name__ == "__main__":
    sys.exit(main())
