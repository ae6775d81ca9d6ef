"""Embed every image of a source as a vector, in atomically written shards and resumable runs."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

import numpy as np

from spectral_vmamba._version import __version__
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, EvalSamples, load_batches
from spectral_vmamba.data.sources import absolute_path, read_images
from spectral_vmamba.data.unreadable import ReadError, write_unreadable
from spectral_vmamba.retrieval.array_files import arrays_are_intact, join_shards
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.encoder import Embeddings, Encoder, build_encoder
from spectral_vmamba.retrieval.shard_files import Shard, require_pyarrow
from spectral_vmamba.retrieval.store import EmbeddingStore, StoreMetadata, StoreSettings
from spectral_vmamba.utils.atomic_files import remove_temporary_files
from spectral_vmamba.utils.progress import Progress, no_progress


@dataclass(frozen=True)
class EmbedResult:
    """`images` is the total number of embedded images; `computed` were embedded in this run, in `seconds`."""

    folder: Path
    images: int
    unreadable: list[ReadError]
    vector_length: int
    computed: int
    seconds: float
    quarter_turn_invariant: bool


def embed(config: EmbedConfig, dataset: ImageDataset | None = None, progress: Progress = no_progress) -> EmbedResult:
    """Embed the images of `config.source`, or of a given dataset, into `config.output`.

    >>> from spectral_vmamba import EmbedConfig, embed
    >>> embed(EmbedConfig("digits", output="digits.vectors", checkpoint="runs/digits", format="npy")).images
    1797
    """
    if config.format == "parquet":
        require_pyarrow()
    dataset = read_images(config.source) if dataset is None else dataset
    encoder = build_encoder(config.model, config.checkpoint, config.image_size, config.device, config.features)
    store = EmbeddingStore(config.output, describe_store(config, dataset, encoder))
    store.open(config.overwrite)
    started = time.perf_counter()
    missing = _find_missing(store)
    if missing and config.engine == "ray":
        from spectral_vmamba.retrieval.ray_engine import embed_on_ray

        embed_on_ray(store, dataset, config, missing, progress)
    else:
        for number, shard in embed_shards(encoder, dataset, store, config, missing, progress):
            store.write_shard(number, shard)
    seconds = time.perf_counter() - started
    return _finish(store, sum(len(store.shard_rows(number)) for number in missing), seconds)


def describe_store(config: EmbedConfig, dataset: ImageDataset, encoder: Encoder) -> StoreMetadata:
    cells, channels = encoder.token_layout() if config.tokens else (None, 0)
    settings = StoreSettings(
        images=dataset.fingerprint(),
        count=len(dataset),
        model=encoder.name,
        features=encoder.features.kind,
        vector=encoder.features.description,
        weights=encoder.weights_digest(),
        preprocessing=json.loads(json.dumps(asdict(encoder.preprocessing))),
        tokens=config.tokens,
        format=config.format,
        shard_size=config.shard_size,
        version=__version__,
    )
    return StoreMetadata(
        settings=settings,
        source=absolute_path(config.source),
        root=dataset.root,
        checkpoint=None if config.checkpoint is None else absolute_path(config.checkpoint),
        image_size=config.image_size,
        vector_length=encoder.features.length,
        token_shape=None if cells is None else (len(cells), channels),
        cells=None if cells is None else tuple((int(row), int(column)) for row, column in cells),
        quarter_turn_invariant=encoder.is_quarter_turn_invariant,
    )


def embed_shards(
    encoder: Encoder,
    dataset: ImageDataset,
    store: EmbeddingStore,
    config: EmbedConfig,
    numbers: list[int],
    progress: Progress = no_progress,
) -> Iterator[tuple[int, Shard]]:
    """Yield each shard when its last batch is embedded."""
    plan = [(number, rows) for number in numbers for rows in _split(store.shard_rows(number), config.batch_size)]
    if not plan:
        return
    samples = EvalSamples(dataset, encoder.preprocessing.eval_transform())
    loaded = load_batches(samples, [rows for _, rows in plan], config.workers or 0)
    batches: list[Batch] = []
    embeddings: list[Embeddings] = []
    for (number, rows), batch in zip(plan, progress(loaded, "embedding", len(plan)), strict=True):
        batches.append(batch)
        if batch.indices:
            embeddings.append(encoder.encode(batch.inputs, batch.pose, config.tokens))
        if rows.stop == store.shard_rows(number).stop:
            yield number, _make_shard(dataset, store, batches, embeddings)
            batches, embeddings = [], []


def _make_shard(
    dataset: ImageDataset, store: EmbeddingStore, batches: list[Batch], embeddings: list[Embeddings]
) -> Shard:
    metadata = store.metadata
    indices = [i for batch in batches for i in batch.indices]
    sizes = [size for batch in batches for size in batch.sizes]
    vectors = [part.vectors for part in embeddings] or [np.zeros((0, metadata.vector_length), np.float32)]
    tokens = [part.tokens for part in embeddings if part.tokens is not None]
    tokens = tokens or [np.zeros((0, *(metadata.token_shape or ())), np.float16)]
    cells = np.array(metadata.cells, np.int16) if metadata.cells is not None else None
    unreadable = [error for batch in batches for error in batch.unreadable]
    return Shard(
        [_to_utf8(dataset.names[i]) for i in indices],
        [width for width, _ in sizes],
        [height for _, height in sizes],
        [label and _to_utf8(label) for label in map(dataset.label_name, indices)],
        np.concatenate(vectors),
        np.concatenate(tokens) if cells is not None else None,
        cells,
        [replace(error, name=_to_utf8(error.name), reason=_to_utf8(error.reason)) for error in unreadable],
        store.settings_digest,
    )


def _to_utf8(name: str) -> str:
    """Names of files and folders that are not UTF-8 cannot be stored as they are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _split(rows: range, size: int) -> list[range]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _find_missing(store: EmbeddingStore) -> list[int]:
    """The shards to compute. A finished store whose arrays are damaged becomes unfinished."""
    if store.uses_arrays and store.metadata.finished:
        if arrays_are_intact(store):
            return []
        store.write_metadata(finished=False)
    return store.missing_shards()


def _finish(store: EmbeddingStore, computed: int, seconds: float) -> EmbedResult:
    remove_temporary_files(store.path)
    if not (store.uses_arrays and store.metadata.finished):
        unreadable, images = [], 0
        for shard in store.shards():
            unreadable += shard.unreadable
            images += len(shard)
        write_unreadable(store.path, unreadable)
        checksums = {"sha256": join_shards(store, images)} if store.uses_arrays else {}
        listed = tuple(astuple(error) for error in unreadable)
        store.write_metadata(finished=True, embedded=images, unreadable=listed, **checksums)
    if store.uses_arrays:
        store.remove_shards()
    metadata = store.metadata
    return EmbedResult(
        store.path,
        metadata.embedded,
        [ReadError(*error) for error in metadata.unreadable],
        metadata.vector_length,
        computed,
        seconds,
        metadata.quarter_turn_invariant,
    )
