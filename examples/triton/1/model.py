"""A model for Triton's Python backend: what the server has gathered for an instance is one run.

The folder `triton` is a model of a repository: config.pbtxt names the ONNX file, the ports and how long requests wait for
others. Each request brings one or more rows of the input, and gets its rows of the output.
"""
import json

import numpy as np
import triton_python_backend_utils as pb_utils

import tgrun


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        options = tgrun.SessionOptions()
        options.intra_op_num_threads = int(config["parameters"]["threads"]["string_value"])
        self.session = tgrun.InferenceSession(config["parameters"]["model"]["string_value"], options,
                                              providers=["CPUExecutionProvider"])
        self.input, self.output = config["input"][0]["name"], config["output"][0]["name"]

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(r, self.input).as_numpy() for r in requests]
        try:
            y = self.session.run([self.output], {self.input: np.concatenate(rows)})[0]
        except tgrun.Error as e:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e))) for _ in requests]
        ends = np.cumsum([len(r) for r in rows])[:-1]
        return [pb_utils.InferenceResponse([pb_utils.Tensor(self.output, part)]) for part in np.split(y, ends)]
