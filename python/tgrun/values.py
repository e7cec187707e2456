"""numpy arrays, and lists, dicts and None, <-> TgTensor.

In: what a user feeds. A contiguous array is lent to the library as it is. Out: an array over the memory that the run
wrote, which it owns from the next run on. Copied are only values whose form differs: strings, types below a byte, which
numpy keeps one a byte and the library packed, and what sequences, optionals and maps hold. Types that numpy lacks are
those of the package ml_dtypes. A sequence is a list, an optional its element or None, a map a dict. Where a value is
not of its input's kind, the library says so.
"""
import ctypes
import functools
from ctypes import memmove
from sys import getrefcount

import numpy as np

from .library import BAD_INPUT, MAX_RANK, BadInput, TgTensor, lib

STRING, SEQUENCE, OPTIONAL, MAP = 8, 64, 65, 66
TYPES = {                       # TgType: the standard's name, numpy's name
    1: ("float", "float32"), 2: ("uint8", "uint8"), 3: ("int8", "int8"), 4: ("uint16", "uint16"), 5: ("int16", "int16"), 6: ("int32", "int32"), 7: ("int64", "int64"),
    STRING: ("string", "object"), 9: ("bool", "bool"), 10: ("float16", "float16"), 11: ("double", "float64"), 12: ("uint32", "uint32"), 13: ("uint64", "uint64"),
    14: ("complex64", "complex64"), 15: ("complex128", "complex128"), 16: ("bfloat16", "bfloat16"), 17: ("float8e4m3fn", "float8_e4m3fn"), 18: ("float8e4m3fnuz", "float8_e4m3fnuz"),
    19: ("float8e5m2", "float8_e5m2"), 20: ("float8e5m2fnuz", "float8_e5m2fnuz"), 21: ("uint4", "uint4"), 22: ("int4", "int4"), 23: ("float4e2m1", "float4_e2m1fn"),
    24: ("float8e8m0", "float8_e8m0fnu"), 25: ("uint2", "uint2"), 26: ("int2", "int2"), 27: ("float6e2m3", "float6_e2m3fn"), 28: ("float6e3m2", "float6_e3m2fn"),
}
NUMBERS = {numpy_name: number for number, (_, numpy_name) in TYPES.items()}
SMALL = 1 << 15                 # bytes of an output that are copied sooner than an array is made over them
PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


@functools.cache                # a dtype's name takes longer than a small run
def number_of(dtype):
    return STRING if dtype.kind in "OSU" or dtype.type is np.void else NUMBERS.get(dtype.name)


@functools.cache
def dtype_of(number):
    name = TYPES[number][1]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes        # only for who has such values
        return np.dtype(getattr(ml_dtypes, name))


def type_text(types):
    """A port's type in onnxruntime's words; types: its TgType and those inside, then 0."""
    number, *inside = types
    if number == MAP:
        return f"map({TYPES[inside[0]][0]},{type_text(inside[1:])})"
    if number in (SEQUENCE, OPTIONAL):
        return f"{'seq' if number == SEQUENCE else 'optional'}({type_text(inside)})"
    return f"tensor({TYPES[number][0]})" if number else ""


# ---- in ----

def pack(array, bits):
    """The first element in the lowest bits."""
    codes = np.unpackbits(array.reshape(-1, 1).view(np.uint8), axis=1, count=bits, bitorder="little")
    return np.packbits(codes, bitorder="little")


FEW = 40                        # strings that are encoded one by one


def strings(name, array):
    """An array of pointers, and the bytes behind them: many strings are encoded at once, a zero behind each."""
    values = array.reshape(-1).tolist()
    if len(values) < FEW:
        data = [s if isinstance(s, bytes) else str(s).encode(errors="surrogateescape") for s in values]
        good, pointers = not any(b"\0" in s for s in data), (ctypes.c_char_p * len(data))(*data)
    else:
        try:
            data = "\0".join(values).encode(errors="surrogateescape") + b"\0"
        except TypeError:                                       # not all are str
            data = b"\0".join(s if isinstance(s, bytes) else str(s).encode(errors="surrogateescape")
                              for s in values) + b"\0"
        bytes_of = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(bytes_of == 0)
        good, pointers = len(ends) == len(values), np.empty(len(values), np.uintp)
        if good:
            pointers[0], pointers[1:] = 0, ends[:-1] + 1
            pointers += bytes_of.__array_interface__["data"][0]
    if not good:
        raise BadInput(f"input '{name}': a string holds a zero byte", BAD_INPUT, field=name)
    return pointers, data


def plain(array):
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def lend_held(tensor, name, values, types):
    held = (TgTensor * len(values))()
    tensor.type, tensor.rank, tensor.data, tensor.size_bytes = types[0], 1, ctypes.addressof(held), ctypes.sizeof(held)
    tensor.shape[0] = len(values)
    return held, [lend(part, name, value, types[1:]) for part, value in zip(held, values)]


def map_part(name, part, number):
    """Keys or values of a dict as an array."""
    try:
        return np.array(list(part), dtype_of(number))
    except (TypeError, ValueError, OverflowError):
        odd = next((type(v) for v in part if not isinstance(v, (int, float, np.number))), object)
        raise BadInput(
            f"input '{name}': Unexpected key type  {odd}, it cannot be linked to C type {TYPES[number][1]}_t", BAD_INPUT,
            field=name) from None


def lend(tensor, name, value, types):
    """Fills in the TgTensor of an input of these types (as type_text has them); returns what must live as long as it is
    used."""
    if types[0] == OPTIONAL:
        return lend_held(tensor, name, [] if value is None else [value], types)
    if types[0] == SEQUENCE and isinstance(value, (list, tuple)):
        return lend_held(tensor, name, value, types)
    if types[0] == MAP and isinstance(value, dict):
        return lend_held(tensor, name, [
            map_part(name, part, number) for part, number in zip((value, value.values()), types[1:])
        ], types)
    if value is None:
        raise BadInput(f"input '{name}' is None; {type_text(types)} is wanted", BAD_INPUT, field=name)
    return lend_array(tensor, name, value, types[0])


def place(array, first=ctypes.c_char.from_buffer, addressof=ctypes.addressof):
    """Where its data lie. numpy's own answer, which there is for all arrays, takes longer than a small run."""
    try:
        return addressof(first(array))
    # read only, without elements, or of a type that buffers lack
    except (TypeError, ValueError, BufferError):
        return array.__array_interface__["data"][0]


class Loan:
    """An input that is lent again and again: where an array has the type of the last one, only its place and its shape
    are new."""
    new = 0             # how often another type or shape came, of all of them

    def __init__(self, tensor, name, types):
        self.tensor, self.name, self.types, self.dtype, self.shape = tensor, name, types, None, None

    def lend(self, value):
        """Returns what must live as long as the tensor is used."""
        if type(value) is np.ndarray and value.dtype is self.dtype:
            flags, shape = value.flags, value.shape
            if flags.c_contiguous and flags.aligned and (shape == self.shape or self.reshape(shape, value.nbytes)):
                self.tensor.data = place(value)
                return value
        self.dtype = None
        Loan.new += 1
        kept = lend(self.tensor, self.name, value, self.types)
        if type(value) is np.ndarray and kept is value:
            self.dtype, self.shape = value.dtype, value.shape
        return kept

    def reshape(self, shape, size_bytes):
        """To another of the same rank."""
        if len(shape) != len(self.shape):
            return False
        tensor = self.tensor
        for k, n in enumerate(shape):
            tensor.shape[k] = n
        tensor.size_bytes, self.shape = size_bytes, shape
        Loan.new += 1
        return True


def lend_array(tensor, name, value, number):
    """Lists and numbers of Python's become what the input wants; an array has a type of its own."""
    try:
        array = np.asarray(
            value,
            dtype_of(number) if number in TYPES and isinstance(value, (list, tuple, int, float, str, bytes)) else None)
    except (ValueError, OverflowError) as e:
        raise BadInput(f"input '{name}' is no array: {e}", BAD_INPUT, field=name) from None
    tensor.type, tensor.rank = number_of(array.dtype) or 0, array.ndim
    if not tensor.type or array.ndim > MAX_RANK:
        raise BadInput(
            f"input '{name}' is an array of {array.dtype.name} with {array.ndim} dimensions, which no tensor is",
            BAD_INPUT, field=name)
    tensor.shape[:array.ndim] = array.shape
    if tensor.type == STRING:
        kept = strings(name, array)
        tensor.data, tensor.size_bytes = place(kept[0]) if len(kept[0]) else None, 8 * len(kept[0])
        return kept
    kept = array if plain(array) else np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if tensor.type in PACKED_BITS:
        kept = pack(kept, PACKED_BITS[tensor.type])
    tensor.data, tensor.size_bytes = kept.__array_interface__["data"][0], kept.nbytes
    return kept


# ---- out ----

class Memory:
    """A tensor's data as numpy sees memory of others."""

    def __init__(self, tensor, shape, dtype):
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}",
            "data": (tensor.data, False)
        }


class RunMemory(Memory):
    """The session's until it is taken; then freed with the last array over it."""
    taken = False

    def take(self, session, index):
        lib.tg_take(self.tensor, session, index)
        self.taken = True

    def __del__(self, free=lib.tg_tensor_free):
        if self.taken:
            free(self.tensor)


class Output:
    """An output of a session where the last run wrote it. Who reads it has views of `array`: where there are none at
    the next run, that one writes there again, else the memory is theirs (settle)."""

    def __init__(self, tensor):
        number, data, size = tensor.type, tensor.data, tensor.size_bytes
        self.shape, dtype = tuple(tensor.shape[:tensor.rank]), dtype_of(number)
        self.memory = RunMemory(TgTensor(type=number, rank=tensor.rank, data=data, size_bytes=size), self.shape, dtype)
        self.array, self.dtype = np.asarray(self.memory), dtype
        self.at, self.unread = (number, data, size), getrefcount(self.array)

    def lies_at(self, tensor):
        """The last run wrote such a tensor in this place."""
        return self.at == (tensor.type, tensor.data, tensor.size_bytes) and \
            self.shape == tuple(tensor.shape[:tensor.rank])

    def view(self):
        return self.array.view(self.dtype)

    def settle(self, session, index):
        """Before the session's memory changes; whether it is the readers'."""
        if getrefcount(self.array) > self.unread:
            self.memory.take(session, index)
            return True
        return False


def unpack(data, shape, dtype, bits):
    size = int(np.prod(shape))
    packed = np.frombuffer(ctypes.string_at(data, -(-size * bits // 8)), np.uint8)
    codes = np.packbits(
        np.unpackbits(packed, count=size * bits, bitorder="little").reshape(size, bits), axis=1,
        bitorder="little").reshape(-1)
    if dtype.name.startswith("int"):
        # the sign bit stands for its negative
        codes = (codes.astype(np.int8) ^ (1 << bits - 1)) - (1 << bits - 1)
    return codes.astype(np.int8).view(dtype).reshape(shape)


def words(data, shape):
    out = np.empty(shape, object)
    if out.size:                                                # no string holds a zero byte: they are decoded at once
        out.reshape(-1)[:] = b"\0".join(
            (ctypes.c_char_p * out.size).from_address(data)[:]).decode(errors="surrogateescape").split("\0")
    return out


def maps(keys, values):
    """One, or a row for each of several that share their keys."""
    return dict(zip(keys.tolist(), values.tolist())) if values.ndim == 1 else [
        dict(zip(keys.tolist(), row)) for row in values.tolist()
    ]


def copied(tensor):
    """What stays the session's."""
    shape = tuple(tensor.shape[:tensor.rank])
    if tensor.type >= SEQUENCE:
        held = [copied(part) for part in (TgTensor * shape[0]).from_address(tensor.data)] if shape[0] else []
        return held if tensor.type == SEQUENCE else maps(*held) if tensor.type == MAP else held[0] if held else None
    if tensor.type == STRING:
        return words(tensor.data, shape)
    dtype = dtype_of(tensor.type)
    if tensor.type in PACKED_BITS:
        return unpack(tensor.data, shape, dtype, PACKED_BITS[tensor.type])
    return np.array(Memory(tensor, shape, dtype)).view(dtype)


class Outputs:
    """What a session's runs write, as values of Python's. As long as arrays over its memory are read, `settle` comes
    before each call that changes that."""

    def __init__(self, session, count):
        self.session, self.tensors, self.large = session, (TgTensor * count)(), [None] * count

    def settle(self):
        for k, output in enumerate(self.large):
            if output is not None and output.settle(self.session, k):
                self.large[k] = None

    def forget(self):
        """The session's memory is about to go."""
        self.settle()
        self.large = [None] * len(self.large)

    def receive(self, index):
        """Output `index` of the last run: an array over its memory, a copy where it is small, or a list, dict or None
        with copies."""
        tensor = self.tensors[index]
        number, size = tensor.type, tensor.size_bytes
        if number == STRING or number in PACKED_BITS or number >= SEQUENCE:
            return copied(tensor)
        if size <= SMALL:
            array = np.empty(tuple(tensor.shape[:tensor.rank]), dtype_of(number))
            memmove(place(array), tensor.data, size)
            return array
        output = self.large[index]
        if output is None or not output.lies_at(tensor):
            output = self.large[index] = Output(tensor)
        return output.view()
