"""Thumbnails of search results, from the files or from the source that was embedded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from spectral_vmamba.data.decode import to_pil
from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.data.sources import read_images
from spectral_vmamba.retrieval.search import Hit, Index

_SIDE = 160


@dataclass(frozen=True, eq=False)
class Thumbnail:
    """A small image, None if it is missing, with a short title, the name of its file and, if it has one, its label."""

    image: UInt8[np.ndarray, "h w 3"] | None
    title: str
    name: str
    label: str | None = None


def make_thumbnails(index: Index, results: Sequence[tuple[NamedImage, Sequence[Hit]]]) -> list[list[Thumbnail]]:
    """For each query its thumbnail, then those of its hits."""
    open_image = _image_opener(index)
    return [
        [
            Thumbnail(_shrink(query.open), "query", query.name),
            *(
                Thumbnail(
                    _shrink(partial(open_image, hit.file)), f"{hit.rank}: {hit.similarity:.3f}", hit.file, hit.label
                )
                for hit in hits
            ),
        ]
        for query, hits in results
    ]


def _image_opener(index: Index) -> Callable[[str], Image.Image]:
    root = index.metadata.root
    if root is not None:
        return lambda name: to_pil(Path(root) / name)
    try:
        dataset = read_images(index.metadata.source)
    except (ValueError, OSError) as error:
        reason = str(error)

        def fail(name: str) -> Image.Image:
            raise ValueError(f"{name} is missing: {reason}")

        return fail
    numbers = {name: i for i, name in enumerate(dataset.names)}
    return lambda name: dataset.open(numbers[name])


def _shrink(open_image: Callable[[], Image.Image]) -> UInt8[np.ndarray, "h w 3"] | None:
    try:
        image = open_image()
    except (ValueError, OSError, LookupError):
        return None
    image.thumbnail((_SIDE, _SIDE))
    return np.asarray(image)
