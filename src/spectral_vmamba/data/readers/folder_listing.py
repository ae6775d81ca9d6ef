"""The images below a folder, and what was skipped there: counted, and reported in one warning."""

import os
import warnings
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from spectral_vmamba.data.decode import HEIF_HINT
from spectral_vmamba.utils.wording import plural

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
HEIF_SUFFIXES = (".heic", ".heif")
_LISTED = 5  # suffixes and folders that a message names


class SkippedFilesWarning(UserWarning):
    """Some files or folders of a data folder are not used."""


@dataclass
class Skipped:
    """What was found below a folder and is not used."""

    suffixes: Counter[str] = field(default_factory=Counter)
    """number of files by suffix, "" for files without one"""
    broken_links: int = 0
    linked_folders: int = 0
    closed_folders: int = 0
    loose_images: int = 0
    empty_classes: list[str] = field(default_factory=list)

    def merge(self, other: "Skipped") -> None:
        self.suffixes += other.suffixes
        for name in ("broken_links", "linked_folders", "closed_folders", "loose_images"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.empty_classes += other.empty_classes

    def describe(self) -> str:
        """One sentence without the folder; empty if nothing was skipped."""
        files = [f"{count:,} {_name_suffix(suffix)}" for suffix, count in self.suffixes.most_common(_LISTED)]
        if others := sum(self.suffixes.values()) - sum(count for _, count in self.suffixes.most_common(_LISTED)):
            files.append(f"{others:,} with other suffixes")
        files += [plural(self.broken_links, "broken link")] if self.broken_links else []
        files += [plural(self.loose_images, "image") + " outside the class folders"] if self.loose_images else []
        count = sum(self.suffixes.values()) + self.broken_links + self.loose_images
        parts = [f"{plural(count, 'file')} skipped: {', '.join(files)}"] if files else []
        if self.empty_classes:
            names = ", ".join(self.empty_classes[:_LISTED]) + (", …" if len(self.empty_classes) > _LISTED else "")
            parts.append(f"{plural(len(self.empty_classes), 'class folder')} without images: {names}")
        if self.linked_folders:
            parts.append(f"{plural(self.linked_folders, 'link to a folder', 'links to folders')} not followed")
        if self.closed_folders:
            parts.append(f"{plural(self.closed_folders, 'folder')} that cannot be opened")
        heif = sum(self.suffixes[suffix] for suffix in HEIF_SUFFIXES)
        return "; ".join(parts) + (f"; to read HEIC images, {HEIF_HINT}" if heif else "")

    def warn(self, folder: Path) -> None:
        """Report once per process and folder: Python does not repeat a warning with the same text."""
        if text := self.describe():
            warnings.warn(f"{folder}: {text}", SkippedFilesWarning, stacklevel=3)


def readable_suffixes() -> tuple[str, ...]:
    """The suffixes of image files, in lower case; those of HEIC images if pillow-heif is installed."""
    return (*SUFFIXES, *HEIF_SUFFIXES) if find_spec("pillow_heif") else SUFFIXES


def list_folder(folder: Path) -> tuple[list[Path], Skipped]:
    """All images at any depth, by suffix, sorted, and what else is there. Hidden files and folders are ignored."""
    images: list[Path] = []
    skipped, suffixes = Skipped(), readable_suffixes()

    def count_closed(error: OSError) -> None:
        skipped.closed_folders += 1

    for parent, folders, files in os.walk(folder, onerror=count_closed):
        folders[:] = [name for name in folders if not name.startswith(".")]
        skipped.linked_folders += sum(os.path.islink(os.path.join(parent, name)) for name in folders)
        for name in files:
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if path.suffix.lower() in suffixes and path.is_file():
                images.append(path)
            elif path.exists():
                skipped.suffixes[path.suffix.lower()] += 1
            else:
                skipped.broken_links += 1
    return sorted(images), skipped


def _name_suffix(suffix: str) -> str:
    return suffix or "without a suffix"
