"""A model behind Ray Serve: replicas, each with a session, that gather requests into batches.

    pip install tgrun 'ray[serve]'
    MODEL=model.onnx serve run ray_serve:app        # then POST a sample as npy bytes to http://127.0.0.1:8000/

The model has one input whose axis 0 is free, the batch; a sample is a row of it. Its first output's rows come back.
REPLICAS, BATCH (at most) and THREADS (a replica's) are read from the environment, 2, 8 and 1 unless set.
"""
import io, os

import numpy as np
from ray import serve

REPLICAS, BATCH, THREADS = (int(os.environ.get(name, n)) for name, n in (("REPLICAS", 2), ("BATCH", 8), ("THREADS", 1)))


@serve.deployment(num_replicas=REPLICAS, max_ongoing_requests=4 * BATCH, ray_actor_options={"num_cpus": THREADS})
class Model:
    def __init__(self, path):
        import tgrun
        options = tgrun.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = tgrun.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.sizes = []

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=0.005)
    async def run(self, samples):
        self.sizes.append(len(samples))
        return list(self.session.run(None, {self.name: np.stack(samples)})[0])

    async def largest(self):
        """How many requests the largest batch had; for those who tune."""
        return max(self.sizes, default=0)

    async def __call__(self, request):
        if not isinstance(request, np.ndarray):         # over HTTP
            request = np.load(io.BytesIO(await request.body()), allow_pickle=False)
            out = io.BytesIO()
            np.save(out, await self.run(request))
            return out.getvalue()
        return await self.run(request)


app = Model.bind(os.environ["MODEL"]) if "MODEL" in os.environ else None
