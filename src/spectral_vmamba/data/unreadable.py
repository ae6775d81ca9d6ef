"""Images that cannot be read: one type for all of them, and the file that lists them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spectral_vmamba.utils.atomic_files import write_text

UNREADABLE_FILE = "unreadable.txt"


@dataclass(frozen=True)
class ReadError:
    """An image that could not be read, by its index in the dataset, and why."""

    index: int
    name: str
    reason: str

    @classmethod
    def from_exception(cls, index: int, name: str, error: Exception) -> "ReadError":
        """The message of the exception on one line."""
        return cls(index, name, " ".join(str(error).split()))

    @property
    def explanation(self) -> str:
        """The name and the reason, which may contain the name."""
        return self.reason if self.name in self.reason else f"{self.name}: {self.reason}"


def write_unreadable(folder: Path, *groups: Iterable[ReadError]) -> None:
    """List unreadable images in `unreadable.txt`, one per line: name, tab, reason. Without errors, remove the file.

    A group is the images of one dataset; they are listed in their order there.
    """
    errors = (error for group in groups for error in sorted(group, key=lambda error: error.index))
    lines = [f"{error.name}\t{error.reason}\n" for error in errors]
    if lines:
        write_text(folder / UNREADABLE_FILE, "".join(lines))
    else:
        (folder / UNREADABLE_FILE).unlink(missing_ok=True)


def summarize_unreadable(errors: Iterable[ReadError], limit: int = 10) -> str:
    """Names for a message, shortened after `limit`."""
    names = [error.name for error in errors]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
