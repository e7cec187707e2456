"""Adapters of low rank (LoRA) in onnxruntime's file format: named tensors that runs take for inputs of a model, which
has its own defaults for them. A file is a flatbuffer: a table of the format's, the adapter's and the model's version
and parameters, each a table of name, sizes, type (the standard's number) and bytes. The package `flatbuffers`, which
onnxruntime needs too, reads and writes it."""
import numpy as np

from .binding import OrtValue
from .library import BAD_INPUT, BadInput
from .values import PACKED_BITS, STRING, TYPES, dtype_of, number_of

IDENTIFIER, FORMAT = b"TORT", 1
FORMAT_VERSION, ADAPTER_VERSION, MODEL_VERSION, PARAMETERS = range(4)       # fields of the root
NAME, DIMS, TYPE, DATA = range(4)                                           # of a parameter


class Table:
    """A flatbuffer's table, its fields by their numbers."""

    def __init__(self, data, at):
        from flatbuffers import table
        self.table = table.Table(data, at)

    def field(self, k):
        offset = self.table.Offset(4 + 2 * k)
        return offset and offset + self.table.Pos

    def integer(self, k):
        from flatbuffers import number_types
        at = self.field(k)
        return self.table.Get(number_types.Int32Flags, at) if at else 0

    def text(self, k):
        at = self.field(k)
        return self.table.String(at).decode() if at else ""

    def array(self, k, dtype):
        offset = self.table.Offset(4 + 2 * k)
        return np.frombuffer(self.table.Bytes, dtype, self.table.VectorLen(offset),
                             self.table.Vector(offset)) if offset else np.empty(0, dtype)

    def tables(self, k):
        offset = self.table.Offset(4 + 2 * k)
        for i in range(self.table.VectorLen(offset) if offset else 0):
            yield Table(self.table.Bytes, self.table.Indirect(self.table.Vector(offset) + 4 * i))


def tensor(table, path):
    number, name = table.integer(TYPE), table.text(NAME)
    if number not in TYPES or number == STRING or number in PACKED_BITS:
        raise BadInput(f"{path}: parameter '{name}' is of type {number}, which an adapter cannot have", BAD_INPUT)
    data, shape, dtype = table.array(DATA, np.uint8), table.array(DIMS, np.int64).tolist(), dtype_of(number)
    if any(n < 0 for n in shape) or len(data) != int(np.prod(shape)) * dtype.itemsize:
        raise BadInput(f"{path}: parameter '{name}' has {len(data)} bytes; {shape} of {dtype.name} need others", BAD_INPUT)
    return OrtValue(np.frombuffer(data.tobytes(), dtype).reshape(shape))


class AdapterFormat:
    """What an adapter's file holds; parameters: OrtValues by name."""

    def __init__(self):
        self._adapter, self._model, self._parameters = 0, 0, {}

    @classmethod
    def read_adapter(cls, path):
        with open(path, "rb") as f:
            data = bytearray(f.read())
        if len(data) < 8 or data[4:8] != IDENTIFIER:
            raise BadInput(f"{path}: is no adapter", BAD_INPUT)
        made = cls()
        try:
            root = Table(data, int.from_bytes(data[:4], "little"))
            if root.integer(FORMAT_VERSION) > FORMAT:
                raise BadInput(f"{path}: format {root.integer(FORMAT_VERSION)}; {FORMAT} is known", BAD_INPUT)
            made._adapter, made._model = root.integer(ADAPTER_VERSION), root.integer(MODEL_VERSION)
            made._parameters = {t.text(NAME): tensor(t, path) for t in root.tables(PARAMETERS)}
        except BadInput:
            raise
        except Exception as e:                  # whatever flatbuffers, struct and numpy say of a damaged file
            raise BadInput(f"{path}: is no adapter: {e}", BAD_INPUT) from None
        return made

    def export_adapter(self, path):
        import flatbuffers
        b = flatbuffers.Builder(1024)
        made = []
        for name, value in self._parameters.items():
            array = np.ascontiguousarray(value.numpy())
            text = b.CreateString(name)
            data = b.CreateByteVector(array.tobytes())
            b.StartVector(8, array.ndim, 8)
            for n in reversed(array.shape):
                b.PrependInt64(n)
            shape = b.EndVector()
            b.StartObject(4)
            b.PrependUOffsetTRelativeSlot(NAME, text, 0)
            b.PrependUOffsetTRelativeSlot(DIMS, shape, 0)
            b.PrependInt32Slot(TYPE, number_of(array.dtype), 0)
            b.PrependUOffsetTRelativeSlot(DATA, data, 0)
            made.append(b.EndObject())
        b.StartVector(4, len(made), 4)
        for at in reversed(made):
            b.PrependUOffsetTRelative(at)
        parameters = b.EndVector()
        b.StartObject(4)
        for field, number in ((FORMAT_VERSION, FORMAT), (ADAPTER_VERSION, self._adapter), (MODEL_VERSION, self._model)):
            b.PrependInt32Slot(field, number, 0)
        b.PrependUOffsetTRelativeSlot(PARAMETERS, parameters, 0)
        b.Finish(b.EndObject(), IDENTIFIER)
        with open(path, "wb") as f:
            f.write(b.Output())

    def get_format_version(self):
        return FORMAT

    def set_adapter_version(self, version):
        self._adapter = version

    def get_adapter_version(self):
        return self._adapter

    def set_model_version(self, version):
        self._model = version

    def get_model_version(self):
        return self._model

    def set_parameters(self, parameters):
        self._parameters = dict(parameters)

    def get_parameters(self):
        return dict(self._parameters)


class LoraAdapter:
    """An adapter's parameters, for RunOptions.add_active_adapter."""

    def __init__(self):
        self.parameters = {}

    def Load(self, path):
        self.parameters = AdapterFormat.read_adapter(path).get_parameters()


def adapted(feed, adapters):
    """What a run is fed, with the parameters of these adapters; the same name twice is refused."""
    feed = dict(feed)
    for adapter in adapters:
        if twice := sorted(adapter.parameters.keys() & feed.keys()):
            raise BadInput(f"input '{twice[0]}' is given twice: by an adapter too", BAD_INPUT, field=twice[0])
        feed |= {name: value.numpy() for name, value in adapter.parameters.items()}
    return feed
