"""Names of output files: the folders of the images are kept, and no two images share a name."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit


def output_stems(names: Sequence[str]) -> list[Path]:
    """A relative path without suffix for each image, below the deepest folder that contains all of them.

    Images whose names differ only in their suffix, or in case, keep the suffix: a.jpg and a.png become a.jpg and a.png;
    if that is not enough, a number is added.
    """
    paths = [_locate(name) for name in names]
    root = os.path.commonpath([path.parent for path in paths]) if paths else ""
    relative = [path.relative_to(root) for path in paths]
    stems = [path.with_suffix("") for path in relative]
    shared = Counter(_key(stem) for stem in stems)
    stems = [path if shared[_key(stem)] > 1 else stem for path, stem in zip(relative, stems, strict=True)]
    used = {_key(stem) for stem in stems}
    taken, result = set[str](), []
    for stem in stems:
        number, unique = 2, stem
        while _key(unique) in taken or (unique != stem and _key(unique) in used):
            unique, number = stem.with_name(f"{stem.name}-{number}"), number + 1
        taken.add(_key(unique))
        result.append(unique)
    return result


def _locate(name: str) -> Path:
    """An absolute path; for a URL, its host and path below the root."""
    if "://" in name:
        url = urlsplit(name)
        parts = [part for part in PurePosixPath(unquote(url.path)).parts if part not in ("/", "..")]
        return Path(os.sep, url.netloc.replace(":", "_"), *(parts or ["index"]))
    return Path(os.path.abspath(name))


def _key(stem: Path) -> str:
    return str(stem).casefold()
