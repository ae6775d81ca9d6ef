"""Search embedded images for those most similar to given ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from spectral_vmamba.data.decode import ImageLike, to_pil
from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.data.loader import load_sample
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.data.views import pose_of
from spectral_vmamba.retrieval.array_files import read_arrays
from spectral_vmamba.retrieval.encoder import Encoder, build_encoder
from spectral_vmamba.retrieval.store import EmbeddingStore, StoreMetadata, read_metadata
from spectral_vmamba.utils.wording import at_least

_ROWS_PER_BLOCK = 65536


@dataclass(frozen=True)
class Hit:
    """One similar image; `similarity` is the cosine between the vectors, 1 for the same image."""

    rank: int
    file: str
    similarity: float
    label: str | None


@dataclass(frozen=True, eq=False)
class Index:
    """Embedded images, and the encoder that embedded them."""

    folder: Path
    metadata: StoreMetadata
    encoder: Encoder

    def embed_query(self, image: NamedImage) -> Float[np.ndarray, "v"] | ReadError:
        """The vector of an image, computed as those of the index."""
        sample = load_sample(image.open, self.encoder.preprocessing.eval_transform(), 0, image.name)
        if isinstance(sample, ReadError):
            return sample
        return self.encoder.encode(sample.view.pixels[None], pose_of([sample.view]), tokens=False).vectors[0]

    def blocks(self) -> Iterator[tuple[Sequence[str], Sequence[str | None], Float[np.ndarray, "n v"]]]:
        """Files, labels and vectors, a block at a time."""
        if self.metadata.settings.format == "npy":
            yield from read_arrays(self.folder, _ROWS_PER_BLOCK)
        else:
            for shard in EmbeddingStore(self.folder, self.metadata).shards(with_tokens=False):
                yield shard.files, shard.labels, shard.vectors


def open_index(embeddings: str | Path, device: str = "auto") -> Index:
    """Open an output folder of `embed`.

    Raises ValueError if it is unfinished, or if its vectors are of other weights or of another version.
    """
    folder = Path(embeddings)
    metadata = read_metadata(folder)
    if not metadata.finished:
        raise ValueError(f"the embeddings in {folder} are not finished; run embed again with the same settings")
    if not metadata.embedded:
        raise ValueError(f"no image of {folder} could be read; unreadable.txt there lists the reasons")
    settings = metadata.settings
    encoder = build_encoder(settings.model, metadata.checkpoint, metadata.image_size, device, settings.features)
    if encoder.features.description != settings.vector:
        raise ValueError(
            f"the vectors in {folder} are of another version: {settings.vector} (now {encoder.features.description}). "
            f"Embed the images again with --overwrite"
        )
    digest = encoder.weights_digest()
    if digest != settings.weights:
        raise ValueError(
            f"{metadata.checkpoint or 'the pretrained network'} has other weights than those that made {folder} "
            f"(SHA-256 {digest[:12]}…, not {settings.weights[:12]}…): their vectors cannot be compared. "
            f"Restore the previous weights, or embed the images again with --overwrite"
        )
    return Index(folder, metadata, encoder)


def search(
    embeddings: str | Path | Index, images: ImageLike | Sequence[ImageLike], top: int = 10, device: str = "auto"
) -> list[list[Hit]]:
    """For each image the `top` most similar ones in descending order; equal ones are ordered by file name.

    >>> import numpy as np
    >>> from spectral_vmamba import search
    >>> (hits,) = search("digits.vectors", np.zeros((8, 8), np.uint8), top=3)
    >>> [hit.rank for hit in hits]
    [1, 2, 3]
    """
    index = embeddings if isinstance(embeddings, Index) else open_index(embeddings, device)
    several: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
    named = [NamedImage(f"image {i}", partial(to_pil, image)) for i, image in enumerate(several)]
    results = []
    for _, result in search_named(index, named, top):
        if isinstance(result, ReadError):
            raise ValueError(result.reason)
        results.append(result)
    return results


def search_named(
    index: Index, images: Iterable[NamedImage], top: int = 10
) -> list[tuple[NamedImage, list[Hit] | ReadError]]:
    """For each image its hits, or why it could not be read, in one pass over the index."""
    queries = [(image, index.embed_query(image)) for image in images]
    hits = iter(nearest(index, [vector for _, vector in queries if not isinstance(vector, ReadError)], top))
    return [(image, vector if isinstance(vector, ReadError) else next(hits)) for image, vector in queries]


def nearest(index: Index, vectors: Sequence[Float[np.ndarray, "v"]], top: int) -> list[list[Hit]]:
    """The `top` most similar images for each vector."""
    at_least(1, top=top)
    best: list[list[tuple[float, str, str | None]]] = [[] for _ in vectors]
    for files, labels, block in index.blocks():
        precise = block.astype(np.float64)
        for i, vector in enumerate(vectors):
            # Summed in double precision and rounded once: equal vectors get equal similarities in any block.
            similarities = (precise @ vector.astype(np.float64)).astype(np.float32)
            candidates = [(float(-similarities[row]), files[row], labels[row]) for row in _largest(similarities, top)]
            best[i] = sorted([*best[i], *candidates], key=lambda candidate: candidate[:2])[:top]
    return [
        [Hit(k + 1, file, -negated, label) for k, (negated, file, label) in enumerate(candidates)]
        for candidates in best
    ]


def _largest(similarities: Float[np.ndarray, "n"], top: int) -> list[int]:
    """The rows of the `top` largest values, with all that equal the last of them."""
    if len(similarities) <= top:
        return list(range(len(similarities)))
    return [int(row) for row in np.flatnonzero(similarities >= np.partition(similarities, -top)[-top])]
