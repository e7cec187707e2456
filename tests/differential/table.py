"""What may be drawn: operators_*.py enter functions here. A function draws a node's inputs and attributes, valid by the
standard in the graph's versions. To add one: a function with @operator(names).

Attributes that have a default are left out as often as not. A function that finds nothing to do raises Unfit."""
import numpy as np
from onnx import helper

TABLE = {}                      # full name, with the domain before it: function(draw, name)
EACH = set()                    # each element of the result comes from one element of each input


def operator(*names, domain="", each=False):
    def enter(function):
        for name in names:
            full = f"{domain}.{name}" if domain else name
            TABLE[full] = function
            if each:
                EACH.add(full)
        return function
    return enter


def proto_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
