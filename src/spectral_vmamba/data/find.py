"""From names on a command line to images: files, folders, patterns, and addresses where they are allowed."""

from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from urllib.request import urlopen

from spectral_vmamba.data.readers.folder import images_below

_LARGEST_DOWNLOAD = 100_000_000


def find_images(names: Iterable[str], allow_urls: bool = False) -> Iterator[tuple[str, str | bytes | Exception]]:
    """(name, file or bytes of a file) of every image, one by one; what cannot be found comes as its error."""
    for name in names:
        if name.startswith(("http://", "https://")):
            yield name, _fetched(name, allow_urls)
        elif Path(name).is_dir():
            found = images_below(Path(name))
            if not found:
                yield name, FileNotFoundError(f"no images in {name}")
            yield from ((str(path), str(path)) for path in found)
        elif Path(name).exists() or not set("*?[") & set(name):
            yield name, name
        else:
            matching = sorted(glob(name, recursive=True))
            if not matching:
                yield name, FileNotFoundError(f"nothing matches {name}")
            yield from ((path, path) for path in matching)


def _fetched(address: str, allowed: bool) -> bytes | Exception:
    if not allowed:
        return ValueError(f"{address} is an address; fetching is off unless asked for by --allow-urls")
    try:
        with urlopen(address, timeout=30) as answer:
            content = answer.read(_LARGEST_DOWNLOAD + 1)
    except (OSError, ValueError) as error:
        return OSError(f"cannot fetch {address}: {error}")
    if len(content) > _LARGEST_DOWNLOAD:
        return ValueError(f"{address} has more than the {_LARGEST_DOWNLOAD:,} bytes that are read")
    return content
