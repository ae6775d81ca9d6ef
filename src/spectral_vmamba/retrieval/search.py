"""`search`: the images of an embedded collection that are most like given ones, however these are turned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from spectral_vmamba.inference.predictor import ImageLike, to_pil
from spectral_vmamba.retrieval.array_files import read_arrays
from spectral_vmamba.retrieval.encoder import Encoder, build_encoder
from spectral_vmamba.retrieval.reading import Eye
from spectral_vmamba.retrieval.store import OutputFolder, read_facts

_ROWS = 65536


@dataclass(frozen=True)
class Hit:
    rank: int
    file: str
    similarity: float
    """cosine of the angle between the vectors: 1 for the same image"""
    label: str | None


@dataclass(frozen=True, eq=False)
class Index:
    """An embedded collection, and the network that embedded it."""

    folder: Path
    facts: dict[str, Any]
    encoder: Encoder

    def vector(self, image: ImageLike) -> Float[np.ndarray, "v"]:
        seen = Eye(self.encoder.preprocessing)(to_pil(image))
        return self.encoder.encode([seen.pixels], [seen.quarters], tokens=False).vectors[0]

    def blocks(self) -> Iterator[tuple[Sequence[str], Sequence[str | None], Float[np.ndarray, "n v"]]]:
        """Files, labels and vectors, a part at a time."""
        if self.facts["settings"]["format"] == "npy":
            yield from read_arrays(self.folder, _ROWS)
        else:
            for shard in OutputFolder(self.folder, self.facts).shards(with_tokens=False):
                yield shard.files, shard.labels, shard.vectors


def open_index(embeddings: str | Path, device: str = "cpu") -> Index:
    folder = Path(embeddings)
    facts = read_facts(folder)
    if not facts["finished"]:
        raise ValueError(f"the embeddings in {folder} are not finished; run embed again with the same settings")
    if not facts["embedded"]:
        raise ValueError(f"no image of {folder} could be read; broken.txt there says why")
    made_by = facts["settings"]
    encoder = build_encoder(made_by["model"], facts["checkpoint"], facts["image_size"], device)
    if encoder.weights() != made_by["weights"]:
        raise ValueError(
            f"{facts['checkpoint'] or 'the pretrained stem'} now holds other weights than those that made {folder} "
            f"(SHA-256 {encoder.weights()[:12]}…, not {made_by['weights'][:12]}…): their vectors cannot be compared. "
            f"Bring the old ones back, or embed the images anew with --overwrite"
        )
    return Index(folder, facts, encoder)


def search(
    embeddings: str | Path | Index, images: ImageLike | Sequence[ImageLike], top: int = 10, device: str = "cpu"
) -> list[list[Hit]]:
    """For each image the `top` most similar, most similar first; equal ones by the names of their files."""
    index = embeddings if isinstance(embeddings, Index) else open_index(embeddings, device)
    many: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
    return nearest(index, [index.vector(image) for image in many], top)


def nearest(index: Index, vectors: Sequence[Float[np.ndarray, "v"]], top: int) -> list[list[Hit]]:
    if top < 1:
        raise ValueError(f"expected top of at least 1, got {top}")
    best: list[list[tuple[float, str, str | None]]] = [[] for _ in vectors]
    for files, labels, block in index.blocks():
        wide = block.astype(np.float64)
        for i, vector in enumerate(vectors):
            # Summed in double precision and rounded once: equal vectors get equal similarities wherever they are.
            similarities = (wide @ vector.astype(np.float64)).astype(np.float32)
            rows = _largest(similarities, top)
            found = [(float(-similarities[row]), files[row], labels[row]) for row in rows]
            best[i] = sorted([*best[i], *found], key=lambda each: each[:2])[:top]
    return [[Hit(k + 1, file, -less, label) for k, (less, file, label) in enumerate(each)] for each in best]


def _largest(similarities: Float[np.ndarray, "n"], top: int) -> list[int]:
    """The rows of the largest, with all that equal the last of them."""
    if len(similarities) <= top:
        return list(range(len(similarities)))
    return [int(row) for row in np.flatnonzero(similarities >= np.partition(similarities, -top)[-top])]
