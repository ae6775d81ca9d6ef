"""Any images that a person names, with or without labels: for work that looks at all of them once."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.readers.folder import Files, read_folder, unlabeled
from spectral_vmamba.data.sources import read_source


@dataclass(frozen=True, eq=False)
class Collection:
    """`opener(i)` as in `ImageDataset`. `stamps` change when the images do; `root` is the folder that the names are
    relative to, None where images are no files of their own."""

    names: Sequence[str]
    labels: Sequence[str | None]
    stamps: Sequence[str]
    opener: Callable[[int], Image.Image]
    root: str | None

    def __len__(self) -> int:
        return len(self.names)

    def fingerprint(self) -> str:
        """Tells collections apart without reading the images."""
        digest = sha256()
        for name, label, stamp in zip(self.names, self.labels, self.stamps, strict=True):
            digest.update(f"{name}\0{label}\0{stamp}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def numbers(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}


def read_collection(source: str) -> Collection:
    """A folder with images at any depth, a .txt with a path a line (relative to it), or what `read_source` takes."""
    path = Path(source)
    if path.is_dir():
        return _folder(path)
    if path.is_file() and path.suffix.lower() == ".txt":
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return named_files((line.strip() for line in lines if line.strip()), path.parent, source)
    return _parts(read_source(source), path)


def found_collection(names: Iterable[str]) -> Collection:
    """Files, folders and patterns, as a person names them; what cannot be found is a image that cannot be read."""
    return named_files((name for name, _ in find_images(names)), Path(), "what was named")


def named_files(names: Iterable[str], root: Path, where: str) -> Collection:
    names = list(names)
    if not names:
        raise ValueError(f"no images in {where}; expected a path a line")
    paths = [root / name for name in names]
    stamps, opener = [_stamp(path) for path in paths], Files([str(path.absolute()) for path in paths])
    return Collection(names, [None] * len(names), stamps, opener, str(root.absolute()))


def open_named(root: str, name: str) -> Image.Image:
    return decode_image(Path(root) / name)


def _folder(folder: Path) -> Collection:
    """Every image, those in folders of classes with their class."""
    everything = unlabeled(folder)
    labels = _labels_by_path(folder)
    paths = [folder / name for name in everything.names]
    opener = Files([str(path.absolute()) for path in paths])
    return Collection(
        everything.names,
        [labels.get(str(path)) for path in paths],
        [_stamp(path) for path in paths],
        opener,
        str(folder.absolute()),
    )


def _labels_by_path(folder: Path) -> dict[str, str]:
    try:
        parts = read_folder(folder)
    except ValueError:  # no folders of classes, or classes that do not agree
        return {}
    return {
        path: part.classes[label]
        for part in parts.values()
        if isinstance(part.opener, Files)
        for path, label in zip(part.opener.paths, part.labels.tolist(), strict=True)
    }


def _parts(parts: dict[str, ImageDataset], path: Path) -> Collection:
    """All parts, one after the other; where they use the same names, with the part before the name."""
    names = [name for part in parts.values() for name in part.names]
    table = path.suffix.lower() == ".csv" and path.is_file()
    if len(set(names)) < len(names) and not table:
        names = [f"{which}/{name}" for which, part in parts.items() for name in part.names]
    whole = _stamp(path) if path.is_file() and not table else ""
    sizes = (size for part in parts.values() for size in part.sizes)
    stamps = [_stamp(path.parent / name) for name in names] if table else [f"{size} {whole}" for size in sizes]
    labels = [part.classes[label] for part in parts.values() for label in part.labels.tolist()]
    starts = tuple(accumulate((len(part) for part in parts.values()), initial=0))[:-1]
    opener = _Joined(tuple(part.opener for part in parts.values()), starts)
    return Collection(names, labels, stamps, opener, str(path.parent.absolute()) if table else None)


def _stamp(path: Path) -> str:
    """Contents that change within the same size, as in uncompressed files, change the time."""
    try:
        facts = path.stat()
    except OSError:
        return "missing"
    return f"{facts.st_size} {facts.st_mtime_ns}"


@dataclass(frozen=True)
class _Joined:
    openers: tuple[Callable[[int], Image.Image], ...]
    starts: tuple[int, ...]

    def __call__(self, i: int) -> Image.Image:
        part = bisect_right(self.starts, i) - 1
        return self.openers[part](i - self.starts[part])
