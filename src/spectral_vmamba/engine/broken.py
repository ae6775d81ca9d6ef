"""Training pictures that cannot be read: listed, left out, and too many of them an error."""

from collections.abc import Callable, Iterable

from spectral_vmamba.data.pictures import Pictures
from spectral_vmamba.engine.run_folder import BROKEN, RunFolder


class BrokenPictures:
    def __init__(self, pictures: Pictures, largest_share: float, folder: RunFolder, note: Callable[[str], None]):
        self.pictures, self.largest_share, self.folder, self.note = pictures, largest_share, folder, note
        self.found: set[int] = set()

    def add(self, numbers: Iterable[int]) -> None:
        new = sorted(set(numbers) - self.found)
        if not new:
            return
        self.found.update(new)
        for i in new:
            self.note(f"cannot be read, left out: {self.pictures.names[i]}")
        names = [self.pictures.names[i] for i in sorted(self.found)]
        self.folder.write_text(BROKEN, "\n".join(names) + "\n")
        if len(names) > self.largest_share * len(self.pictures):
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            raise ValueError(
                f"{len(names)} of {len(self.pictures)} training pictures cannot be read, more than "
                f"{self.largest_share:.2%}: {', '.join(names[:10])}{more}; "
                f"all in {self.folder.path / BROKEN}. Remove them, or allow more by --max-broken"
            )
