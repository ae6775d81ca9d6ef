"""Training images that cannot be read: listed, left out, and too many of them an error."""

from collections.abc import Callable, Iterable

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.training.run_folder import BROKEN, RunFolder


class UnreadableImages:
    def __init__(self, images: ImageDataset, largest_share: float, folder: RunFolder, note: Callable[[str], None]):
        self.images, self.largest_share, self.folder, self.note = images, largest_share, folder, note
        self.found: set[int] = set()

    def add(self, numbers: Iterable[int]) -> None:
        new = sorted(set(numbers) - self.found)
        if not new:
            return
        self.found.update(new)
        for i in new:
            self.note(f"cannot be read, left out: {self.images.names[i]}")
        names = [self.images.names[i] for i in sorted(self.found)]
        self.folder.write_text(BROKEN, "\n".join(names) + "\n")
        if len(names) > self.largest_share * len(self.images):
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            raise ValueError(
                f"{len(names)} of {len(self.images)} training images cannot be read, more than "
                f"{self.largest_share:.2%}: {', '.join(names[:10])}{more}; "
                f"all in {self.folder.path / BROKEN}. Remove them, or allow more by --max-broken"
            )
