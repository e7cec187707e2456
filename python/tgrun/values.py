"""numpy arrays <-> TgTensor.

In: what a user feeds. A contiguous array is lent to the library as it is. Out: an array over the memory that the run wrote, which it owns from then on. Copied are only values whose form
differs: strings, and types below a byte, which numpy keeps one a byte and the library packed. Types that numpy lacks are those of the package ml_dtypes.
"""
import ctypes
import functools

import numpy as np

from .library import BAD_INPUT, MAX_RANK, BadInput, TgTensor, lib

STRING = 8
TYPES = {                       # TgType: the standard's name, numpy's name
    1: ("float", "float32"), 2: ("uint8", "uint8"), 3: ("int8", "int8"), 4: ("uint16", "uint16"), 5: ("int16", "int16"), 6: ("int32", "int32"), 7: ("int64", "int64"),
    STRING: ("string", "object"), 9: ("bool", "bool"), 10: ("float16", "float16"), 11: ("double", "float64"), 12: ("uint32", "uint32"), 13: ("uint64", "uint64"),
    14: ("complex64", "complex64"), 15: ("complex128", "complex128"), 16: ("bfloat16", "bfloat16"), 17: ("float8e4m3fn", "float8_e4m3fn"), 18: ("float8e4m3fnuz", "float8_e4m3fnuz"),
    19: ("float8e5m2", "float8_e5m2"), 20: ("float8e5m2fnuz", "float8_e5m2fnuz"), 21: ("uint4", "uint4"), 22: ("int4", "int4"), 23: ("float4e2m1", "float4_e2m1fn"),
    24: ("float8e8m0", "float8_e8m0fnu"), 25: ("uint2", "uint2"), 26: ("int2", "int2"),
}
NUMBERS = {numpy_name: number for number, (_, numpy_name) in TYPES.items()}
PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}


@functools.cache                # a dtype's name takes longer than a small run
def number_of(dtype):
    return STRING if dtype.kind in "OSU" else NUMBERS.get(dtype.name)


@functools.cache
def dtype_of(number):
    name = TYPES[number][1]
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes        # only for who has such values
        return np.dtype(getattr(ml_dtypes, name))


# ---- in ----

def pack(array, bits):
    """The first element in the lowest bits."""
    per_byte = 8 // bits
    codes = np.zeros(-(-array.size // per_byte) * per_byte, np.uint8)
    codes[:array.size] = array.reshape(-1).view(np.uint8) & (1 << bits) - 1
    return np.bitwise_or.reduce(codes.reshape(-1, per_byte) << np.arange(0, 8, bits, dtype=np.uint8), axis=1, dtype=np.uint8)


def strings(name, array):
    """The pointers, and the bytes behind them."""
    encoded = [s if isinstance(s, bytes) else str(s).encode(errors="surrogateescape") for s in array.reshape(-1).tolist()]
    if any(b"\0" in s for s in encoded):
        raise BadInput(f"input '{name}': a string holds a zero byte", BAD_INPUT, field=name)
    return (ctypes.c_char_p * len(encoded))(*encoded)


def plain(array):
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def lend(tensor, name, value):
    """Fills in the TgTensor; returns what must live as long as it is used."""
    try:
        array = np.asarray(value)
    except ValueError as e:
        raise BadInput(f"input '{name}' is no array: {e}", BAD_INPUT, field=name) from None
    tensor.type, tensor.rank = number_of(array.dtype) or 0, array.ndim
    if not tensor.type or array.ndim > MAX_RANK:
        raise BadInput(f"input '{name}' is an array of {array.dtype.name} with {array.ndim} dimensions, which no tensor is", BAD_INPUT, field=name)
    tensor.shape[:array.ndim] = array.shape
    if tensor.type == STRING:
        kept = strings(name, array)
        tensor.data, tensor.size_bytes = ctypes.addressof(kept), ctypes.sizeof(kept)
        return kept
    kept = array if plain(array) else np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if tensor.type in PACKED_BITS:
        kept = pack(kept, PACKED_BITS[tensor.type])
    tensor.data, tensor.size_bytes = kept.__array_interface__["data"][0], kept.nbytes
    return kept


# ---- out ----

class Memory:
    """A tensor's data as numpy sees memory of others; freed with the last array over it."""

    def __init__(self, tensor, shape, dtype):
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str if dtype.isbuiltin == 1 else f"|V{dtype.itemsize}", "data": (tensor.data, False)}

    def __del__(self, free=lib.tg_tensor_free):
        free(self.tensor)


def unpack(data, shape, dtype, bits):
    size = int(np.prod(shape))
    packed = np.frombuffer(ctypes.string_at(data, -(-size * bits // 8)), np.uint8)
    codes = (packed[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(-1)[:size]
    if dtype.name.startswith("int"):
        codes = (codes.astype(np.int8) ^ (1 << bits - 1)) - (1 << bits - 1)         # the sign bit stands for its negative
    return codes.astype(np.int8).view(dtype).reshape(shape)


def words(data, shape):
    out = np.empty(shape, object)
    pointers = (ctypes.c_char_p * out.size).from_address(data)
    out.reshape(-1)[:] = [s.decode(errors="surrogateescape") for s in pointers]
    return out


def receive(session, index, tensor):
    """Output `index` of the last run as an array."""
    shape, dtype = tuple(tensor.shape[:tensor.rank]), dtype_of(tensor.type)
    if tensor.type == STRING:
        return words(tensor.data, shape)
    if tensor.type in PACKED_BITS:
        return unpack(tensor.data, shape, dtype, PACKED_BITS[tensor.type])
    taken = TgTensor()
    lib.tg_take(taken, session, index)
    array = np.asarray(Memory(taken, shape, dtype))
    return array if array.dtype == dtype else array.view(dtype)
