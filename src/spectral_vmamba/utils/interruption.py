"""Stopping between two steps when asked to, rather than in the middle of one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Which signal has come, if any."""

    def __init__(self):
        self.signal: int | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None:  # asked twice: now
            raise KeyboardInterrupt
        self.signal = number

    def exit_code(self) -> int:
        return 128 + (self.signal or signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """Long work stopped when asked to, with its state saved."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Ctrl-C and SIGTERM are noted inside. Signals only reach a program's main thread: elsewhere nothing changes."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interruption.ask) for number in numbers}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
