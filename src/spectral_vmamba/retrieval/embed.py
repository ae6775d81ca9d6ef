"""`embed`: every image of a collection as a vector, in files that are written whole, in runs that can go on."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spectral_vmamba._version import __version__
from spectral_vmamba.data.collection import Collection, read_collection
from spectral_vmamba.retrieval.array_files import gather, whole_arrays
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.retrieval.encoder import Encoded, Encoder, build_encoder
from spectral_vmamba.retrieval.reading import Broken, Seen, readings
from spectral_vmamba.retrieval.shard_files import Shard, pyarrow
from spectral_vmamba.retrieval.store import KIND, OutputFolder, read_broken, write_broken
from spectral_vmamba.utils.atomic_files import remove_leftovers
from spectral_vmamba.utils.progress import Progress, quiet


@dataclass(frozen=True)
class Embedded:
    """`broken` are names and reasons of images that could not be read; `computed` images took `seconds` now, the
    others were there already."""

    folder: Path
    images: int
    broken: list[tuple[str, str]]
    vector_length: int
    computed: int
    seconds: float
    quarter_turns_change_nothing: bool


def embed(config: EmbedConfig, collection: Collection | None = None, progress: Progress = quiet) -> Embedded:
    """Into `config.output`; `collection` in place of `config.source` for images that were found in another way."""
    if config.format == "parquet":
        pyarrow()
    collection = read_collection(config.source) if collection is None else collection
    encoder = build_encoder(config.model, config.checkpoint, config.image_size, config.device)
    folder = OutputFolder(config.output, describe(config, collection, encoder))
    folder.begin(config.overwrite)
    started = time.perf_counter()
    missing = _missing(folder)
    if missing and config.engine == "ray":
        from spectral_vmamba.retrieval.ray_engine import embed_on_ray

        embed_on_ray(folder, collection, config, missing, progress)
    else:
        for number, shard in embedded_shards(encoder, collection, folder, config, missing, progress):
            folder.write_shard(number, shard)
    seconds = time.perf_counter() - started
    computed = sum(len(folder.rows_of(number)) for number in missing)
    return _finish(folder, computed, seconds)


def describe(config: EmbedConfig, collection: Collection, encoder: Encoder) -> dict[str, Any]:
    """The facts of an output folder."""
    cells, channels = encoder.token_layout() if config.tokens else (None, 0)
    settings = {
        "images": collection.fingerprint(),
        "count": len(collection),
        "model": encoder.name,
        "vector": encoder.features.told,
        "weights": encoder.weights(),
        "preprocessing": json.loads(json.dumps(asdict(encoder.preprocessing))),
        "tokens": config.tokens,
        "format": config.format,
        "shard_size": config.shard_size,
        "version": __version__,
    }
    named = (config.source, config.checkpoint)
    source, checkpoint = (os.path.abspath(name) if name and os.path.exists(name) else name for name in named)
    return {
        "kind": KIND,
        "source": source,
        "root": collection.root,
        "checkpoint": checkpoint,
        "image_size": config.image_size,
        "settings": settings,
        "vector_length": encoder.features.length,
        "token_shape": None if cells is None else [len(cells), channels],
        "cells": None if cells is None else cells.tolist(),
        "quarter_turns_change_nothing": encoder.quarter_turns_change_nothing,
        "finished": False,
    }


def embedded_shards(
    encoder: Encoder,
    collection: Collection,
    folder: OutputFolder,
    config: EmbedConfig,
    numbers: list[int],
    progress: Progress = quiet,
) -> Iterator[tuple[int, Shard]]:
    """Each shard as soon as its last batch is through."""
    plan = [(number, batch) for number in numbers for batch in _batches(folder.rows_of(number), config.batch_size)]
    if not plan:
        return
    read = readings(collection, encoder.preprocessing, [batch for _, batch in plan], config.workers or 0)
    rows: list[tuple[int, Seen | Broken]] = []
    encoded: list[Encoded] = []
    for (number, batch), seen in zip(plan, progress(read, "embedding", len(plan)), strict=True):
        rows += zip(batch, seen, strict=True)
        good = [each for each in seen if isinstance(each, Seen)]
        if good:
            encoded.append(encoder.encode([g.pixels for g in good], [g.quarters for g in good], config.tokens))
        if batch.stop == folder.rows_of(number).stop:
            yield number, _shard(collection, folder, rows, encoded)
            rows, encoded = [], []


def _shard(
    collection: Collection,
    folder: OutputFolder,
    rows: list[tuple[int, Seen | Broken]],
    encoded: list[Encoded],
) -> Shard:
    facts = folder.facts
    good = [(i, seen) for i, seen in rows if isinstance(seen, Seen)]
    vectors = [part.vectors for part in encoded] or [np.zeros((0, facts["vector_length"]), np.float32)]
    tokens = [part.tokens for part in encoded if part.tokens is not None]
    tokens = tokens or [np.zeros((0, *(facts["token_shape"] or ())), np.float16)]
    cells = np.array(facts["cells"], np.int16) if facts["cells"] is not None else None
    return Shard(
        [_text(collection.names[i]) for i, _ in good],
        [seen.width for _, seen in good],
        [seen.height for _, seen in good],
        [collection.labels[i] for i, _ in good],
        np.concatenate(vectors),
        np.concatenate(tokens) if cells is not None else None,
        cells,
        [(_text(collection.names[i]), _text(seen.reason)) for i, seen in rows if isinstance(seen, Broken)],
        folder.made_by,
    )


def _text(name: str) -> str:
    """Names that are no UTF-8 cannot be stored as they are."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _batches(rows: range, size: int) -> list[range]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _missing(folder: OutputFolder) -> list[int]:
    """Shards that have to be computed. A folder that turns out to be damaged is unfinished again."""
    if folder.in_arrays and folder.facts["finished"]:
        if whole_arrays(folder):
            return []
        folder.write_facts(finished=False)
    return [number for number in range(folder.shard_count) if folder.finished_shard(number) is None]


def _finish(folder: OutputFolder, computed: int, seconds: float) -> Embedded:
    remove_leftovers(folder.path)
    if not (folder.in_arrays and folder.facts["finished"]):
        broken, images = [], 0
        for shard in folder.shards():
            broken += shard.broken
            images += len(shard)
        write_broken(folder.path, broken)
        digests = {"sha256": gather(folder, images)} if folder.in_arrays else {}
        folder.write_facts(finished=True, embedded=images, **digests)
    if folder.in_arrays:
        folder.remove_shards()
    return Embedded(
        folder.path,
        folder.facts["embedded"],
        read_broken(folder.path),
        folder.facts["vector_length"],
        computed,
        seconds,
        folder.facts["quarter_turns_change_nothing"],
    )
