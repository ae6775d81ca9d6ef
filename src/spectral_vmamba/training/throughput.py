"""Images per second, and the share of time spent waiting for data."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Throughput:
    """Measures from its creation on."""

    def __init__(self):
        self.start, self.waiting_seconds, self.images = time.perf_counter(), 0.0, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the duration of the block as waiting for data."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.waiting_seconds += time.perf_counter() - start

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def waiting_share(self) -> float:
        return self.waiting_seconds / max(self.seconds(), 1e-9)

    def images_per_second(self) -> float:
        return self.images / max(self.seconds(), 1e-9)
