"""Images named on a command line: files, folders, patterns and, where allowed, URLs."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from glob import glob
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from PIL import Image

from spectral_vmamba.data.decode import decode_image, to_pil
from spectral_vmamba.data.readers.folder_listing import list_folder

_LARGEST_DOWNLOAD = 100_000_000
_URL_SCHEMES = ("http://", "https://")


class NamedImage(NamedTuple):
    """An image that is opened on demand; `open` raises ValueError or OSError if it cannot be found or read."""

    name: str
    open: Callable[[], Image.Image]


def find_images(names: Iterable[str], allow_urls: bool = False) -> Iterator[NamedImage]:
    """All images of files, folders (at any depth), shell patterns and URLs, in order.

    A name that matches nothing is returned as an image that raises an error when it is opened.
    """
    for name in names:
        if name.startswith(_URL_SCHEMES):
            yield NamedImage(name, partial(_open_url, name, allow_urls))
        elif Path(name).is_dir():
            paths, skipped = list_folder(Path(name))
            skipped.warn(Path(name))
            yield from map(_file, map(str, paths)) if paths else [_missing(name, f"no images in {name}")]
        elif Path(name).exists() or not set("*?[") & set(name):
            yield _file(name)
        else:
            matches = sorted(glob(name, recursive=True))
            yield from map(_file, matches) if matches else [_missing(name, f"nothing matches {name}")]


def _file(path: str) -> NamedImage:
    return NamedImage(path, partial(to_pil, path))


def _missing(name: str, reason: str) -> NamedImage:
    def fail() -> Image.Image:
        raise FileNotFoundError(reason)

    return NamedImage(name, fail)


def _open_url(url: str, allowed: bool) -> Image.Image:
    if not allowed:
        raise ValueError(f"{url} is a URL; downloading requires --allow-urls")
    try:
        with urlopen(url, timeout=30) as response:
            content = response.read(_LARGEST_DOWNLOAD + 1)
    except (OSError, ValueError) as error:
        raise OSError(f"cannot download {url}: {error}") from error
    if len(content) > _LARGEST_DOWNLOAD:
        raise ValueError(f"{url} has more than {_LARGEST_DOWNLOAD:,} bytes, the limit for downloads")
    return decode_image(content, url)
