"""The programs of the wheel, which lie beside the library: `tgrun` and `tgbench` become them."""
import os
import sys


def _become(name: str) -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    os.execv(program, [program, *sys.argv[1:]])


def tgrun() -> None:
    _become("tgrun")


def tgbench() -> None:
    _become("tgbench")
