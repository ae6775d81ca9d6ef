"""Image storages for tests: one that logs every read, one that fails for some images."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset, ImageStorage


@dataclass(frozen=True)
class LoggedStorage:
    """Appends a line to a log file for each read, in whichever process it happens."""

    storage: ImageStorage
    log: Path

    def content(self, i: int) -> bytes:
        with self.log.open("a") as stream:
            stream.write(f"{i}\n")
        return self.storage.content(i)

    def decode(self, i: int, content: bytes) -> Image.Image:
        return self.storage.decode(i, content)

    def take_counts(self) -> Counter[int]:
        """Reads per image since the last call."""
        counts = Counter(map(int, self.log.read_text().split())) if self.log.exists() else Counter()
        self.log.unlink(missing_ok=True)
        return counts


def log_reads(dataset: ImageDataset, log: Path) -> tuple[ImageDataset, LoggedStorage]:
    """The dataset with a logged storage, and that storage."""
    storage = LoggedStorage(dataset.storage, log)
    return replace(dataset, storage=storage), storage


@dataclass(frozen=True)
class PartlyUnreadableStorage:
    """Images with these indices cannot be read."""

    storage: ImageStorage
    unreadable: frozenset[int]

    def content(self, i: int) -> bytes:
        if i in self.unreadable:
            raise ValueError(f"image {i}\nis damaged")
        return self.storage.content(i)

    def decode(self, i: int, content: bytes) -> Image.Image:
        return self.storage.decode(i, content)


def make_unreadable(dataset: ImageDataset, *indices: int) -> ImageDataset:
    """The dataset with some images that cannot be read; the error message has two lines."""
    return replace(dataset, storage=PartlyUnreadableStorage(dataset.storage, frozenset(indices)))
