"""Stop long work between two steps on Ctrl-C or SIGTERM, instead of in the middle of one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Records the first signal; a second one raises KeyboardInterrupt at once."""

    def __init__(self):
        self.signal: int | None = None

    def handle(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def exit_code(self) -> int:
        return 128 + (self.signal or signal.SIGINT)


class Interrupted(KeyboardInterrupt):
    """Long work stopped on request, with its state saved."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Record Ctrl-C and SIGTERM inside the block. Outside the main thread, which alone receives signals, do nothing."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, interruption.handle) for number in numbers}
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
