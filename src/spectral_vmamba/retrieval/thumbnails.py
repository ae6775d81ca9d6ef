"""Small images of what a search found, from the files or from the source that was embedded."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from spectral_vmamba.data.collection import open_named, read_collection
from spectral_vmamba.inference.predictor import ImageLike, to_pil
from spectral_vmamba.plots.contact_sheet import Tile
from spectral_vmamba.retrieval.search import Hit, Index

_SIDE = 160


def found_images(index: Index, answers: Sequence[tuple[ImageLike, Sequence[Hit]]]) -> list[list[Tile]]:
    """For each query a tile of it, then those of its hits."""
    opened = _opener(index)
    return [[_query(query), *(_hit(opened, hit) for hit in hits)] for query, hits in answers]


def _query(query: ImageLike) -> Tile:
    name = query if isinstance(query, str) else getattr(query, "name", "")
    return Tile(_small(lambda: to_pil(query)), "query", str(name))


def _hit(opened: Callable[[str], Image.Image], hit: Hit) -> Tile:
    label = f" {hit.label}" if hit.label else ""
    return Tile(_small(lambda: opened(hit.file)), f"{hit.rank}: {hit.similarity:.3f}{label}", hit.file)


def _opener(index: Index) -> Callable[[str], Image.Image]:
    root = index.facts["root"]
    if root is not None:
        return lambda name: open_named(root, name)
    try:
        collection = read_collection(index.facts["source"])
    except (ValueError, OSError) as error:
        reason = str(error)

        def missing(name: str) -> Image.Image:
            raise ValueError(f"{name} is missing: {reason}")

        return missing
    numbers = collection.numbers()
    return lambda name: collection.opener(numbers[name])


def _small(opened: Callable[[], Image.Image]) -> UInt8[np.ndarray, "h w 3"] | None:
    try:
        image = opened()
    except (ValueError, OSError, LookupError):
        return None
    image.thumbnail((_SIDE, _SIDE))
    return np.asarray(image)
