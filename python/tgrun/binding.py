"""OrtValue and IOBinding in onnxruntime's shape. Values lie in the computer's own memory, whatever the session's device
is: a run copies what its device needs. So a pointer into another device's memory is refused."""
import ctypes

import numpy as np

from . import names
from .library import BAD_INPUT, UNSUPPORTED, BadInput, Unsupported
from .sparse import SparseTensor
from .values import TYPES, dtype_of, number_of


def element(kind):
    """numpy's type of a standard's number, or of what numpy knows."""
    return dtype_of(kind) if isinstance(kind, int) else np.dtype(kind)


def at(pointer, shape, kind, device):
    """The array that lies there."""
    if str(device).split(":")[0] != "cpu":
        raise Unsupported(f"a pointer into memory of {device}; the computer's own is taken", UNSUPPORTED)
    dtype = element(kind)
    return np.frombuffer((ctypes.c_char * (int(np.prod(shape)) * dtype.itemsize)).from_address(pointer),
                         dtype).reshape(shape)


def stays(device):
    if str(device).split(":")[0] != "cpu":
        names.ignore(f"an OrtValue on {device}",
                     "values lie in the computer's memory, and each run copies what its device needs")


class OrtValue:
    """An array, a list, a dict, or None where an optional has no element. It shares the array that it is made from."""

    def __init__(self, value):
        self._value = value

    @classmethod
    def ortvalue_from_numpy(cls, array, device_type="cpu", device_id=0):
        stays(device_type)
        return cls(array)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data, onnx_element_type):
        """The same bytes as another type of that width: bfloat16 of uint16, ..."""
        return cls(data.view(element(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type=None, device_type="cpu", device_id=0):
        stays(device_type)
        return cls(np.zeros(shape, element(element_type)))

    @classmethod
    def from_dlpack(cls, value, is_bool_tensor=False):
        """Shares the memory of what another library made, on the CPU."""
        array = np.from_dlpack(value if hasattr(value, "__dlpack__") else Capsule(value))
        return cls(array.view(bool) if is_bool_tensor else array)

    def __dlpack__(self, *values, **named):
        return self._value.__dlpack__(*values, **named)

    def __dlpack_device__(self):
        return self._value.__dlpack_device__()

    def to_dlpack(self):
        return self._value.__dlpack__()

    @classmethod
    def ort_value_from_sparse_tensor(cls, value):
        return cls(value)

    def as_sparse_tensor(self):
        if not self.is_sparse_tensor():
            raise BadInput("an OrtValue that is not sparse", BAD_INPUT)
        return self._value

    def numpy(self):
        return self._value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._value, dtype)

    def shape(self):
        return list(self._value.shape)

    def element_type(self):
        return number_of(self._value.dtype)

    def data_type(self):
        if self.is_sparse_tensor():
            return self._value.data_type()
        return f"tensor({TYPES[self.element_type()][0]})"

    def data_ptr(self):
        return self._value.__array_interface__["data"][0]

    def tensor_size_in_bytes(self):
        return self._value.nbytes

    def device_name(self):
        return "cpu"

    def has_value(self):
        return self._value is not None

    def is_tensor(self):
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self):
        return isinstance(self._value, list)

    def is_sparse_tensor(self):
        return isinstance(self._value, SparseTensor)

    def update_inplace(self, array):
        self._value[...] = array

    def _get_c_value(self):
        """This: there is no other one inside."""
        return self

    _ortvalue = property(_get_c_value)


class Capsule:
    """What DLPack's older form hands over, with the methods of the newer one."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **named):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0                                             # the CPU


class OrtValueVector(list):
    """OrtValues in a row."""

    push_back = list.append


class IOBinding:
    """What a session's run_with_iobinding takes, and where it leaves what it makes."""

    def __init__(self, session):
        self._session, self._feed, self._places, self._outputs = session, {}, {}, []

    def bind_cpu_input(self, name, array):
        self._feed[name] = array

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        self._feed[name] = at(buffer_ptr, shape, element_type, device_type)

    def bind_ortvalue_input(self, name, value):
        self._feed[name] = value.numpy()

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Without a pointer a run makes new memory."""
        self._places[name] = at(buffer_ptr, shape, element_type, device_type) if buffer_ptr else None

    def bind_ortvalue_output(self, name, value):
        self._places[name] = value.numpy()

    def clear_binding_inputs(self):
        self._feed = {}

    def clear_binding_outputs(self):
        self._places, self._outputs = {}, []

    def synchronize_inputs(self):
        """A run has ended when it returns."""

    synchronize_outputs = synchronize_inputs

    def get_outputs(self):
        """In the order in which they were bound."""
        return [OrtValue(value) for value in self._outputs]

    def get_outputs_as_ortvaluevector(self):
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self):
        return list(self._outputs)

    def run(self, run_options):
        """What run_with_iobinding does."""
        places = {name: place for name, place in self._places.items() if isinstance(place, np.ndarray)}
        self._outputs = self._session._run(list(self._places), self._feed, run_options, places) if self._places else []
        for k, (name, place) in enumerate(self._places.items()):
            made = self._outputs[k]
            if place is None or made is place:
                continue
            if (place.shape, place.dtype) != (made.shape, made.dtype):
                raise BadInput(
                    f"output '{name}' is {made.dtype.name}{list(made.shape)}; it is bound to {place.dtype.name}{list(place.shape)}",
                    BAD_INPUT, field=name)
            place[...] = made
            self._outputs[k] = place


class SessionIOBinding(IOBinding):
    """The same with an OrtDevice in place of its name and number, as onnxruntime's compiled part has it."""

    def __init__(self, session):
        super().__init__(getattr(session, "outer", session))

    def bind_input(self, name, device, element_type, shape, buffer_ptr):
        super().bind_input(name, device, 0, element_type, shape, buffer_ptr)

    def bind_output(self, name, device=None, element_type=None, shape=None, buffer_ptr=None):
        super().bind_output(name, device or "cpu", 0, element_type, shape, buffer_ptr)
