"""Processes of one MPI job that divide models among them."""
from ctypes import byref, c_int32

from .library import lib


def ranks() -> tuple[int, int]:
    """This process's number among those that mpirun has started, which it joins, and how many they are: (0, 1) where no
    launcher has started it. From then on sessions that rank 0 opens from files with SessionOptions.shard are of all
    ranks. Raises DeviceError where there is no MPI library."""
    rank, count = c_int32(), c_int32()
    lib.tg_ranks(byref(rank), byref(count))
    return rank.value, count.value


def serve_ranks() -> None:
    """Of each rank but 0: does what rank 0's sessions want of it, until that calls end_ranks."""
    lib.tg_ranks_serve()


def end_ranks(status: int = 0) -> None:
    """The last of each rank, after its sessions are gone; it ends MPI, and where a call was cut short all processes."""
    lib.tg_ranks_end(status)
