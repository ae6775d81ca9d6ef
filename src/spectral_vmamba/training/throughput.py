"""How fast training goes, and how much of it is waiting for images."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Time since it was made."""

    def __init__(self):
        self.start, self.waited, self.images = time.perf_counter(), 0.0, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - start

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def waiting_share(self) -> float:
        return self.waited / max(self.seconds(), 1e-9)

    def images_per_second(self) -> float:
        return self.images / max(self.seconds(), 1e-9)
