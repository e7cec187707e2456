"""How calls that take long are ended: from another thread, and by Ctrl-C."""
import contextlib
import ctypes
import signal
import sys
import threading

from .library import Stopped

STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_double)
LINE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


@STEP
def step(user, what, done, total):
    """Python looks at its signals before this begins."""


@LINE
def line(user, text):
    print(text.decode(errors="replace"), file=sys.stderr)


class Flag:
    """TgOptions.stop of a session."""

    def __init__(self):
        self.value = ctypes.c_int32(0)

    def watch(self, options):
        """The calls of a session with these options are ended by this flag; Python looks at signals at each of their
        steps, and their lines go to the standard error."""
        options.stop, options.progress, options.log = ctypes.addressof(self.value), *(
            ctypes.cast(f, ctypes.c_void_p) for f in (step, line))

    @contextlib.contextmanager
    def interrupts(self):
        """Ctrl-C ends the call within, where this is the thread that Python gives signals to."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        came = []

        def on_signal(number, frame):
            came.append((number, frame))
            self.value.value = 1

        before = signal.getsignal(signal.SIGINT)
        if not callable(before):
            yield
            return
        signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        except Stopped:
            if not came:
                raise
        finally:
            signal.signal(signal.SIGINT, before)
            if came:
                self.value.value = 0
                before(*came[0])            # KeyboardInterrupt, unless the program has made it something else


class Switch:
    """What ends calls that others are in: RunOptions.terminate, the cancellation of a load."""

    def __init__(self):
        self.on, self.flags = False, []

    def turn(self, on):
        self.on = bool(on)
        for flag in list(self.flags):
            flag.value.value = int(self.on)

    @contextlib.contextmanager
    def holding(self, flag):
        self.flags.append(flag)
        flag.value.value = int(self.on)
        try:
            yield
        finally:
            self.flags.remove(flag)
            flag.value.value = 0
