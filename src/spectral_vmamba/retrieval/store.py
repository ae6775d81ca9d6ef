"""The folder of one embedded source: its shards, its metadata, and whether a run may resume in it."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from spectral_vmamba.data.unreadable import UNREADABLE_FILE
from spectral_vmamba.retrieval.feature_kinds import FeatureKind
from spectral_vmamba.retrieval.shard_files import FORMATS, DamagedShard, Shard
from spectral_vmamba.utils.atomic_files import prepare_folder, write_text
from spectral_vmamba.utils.settings import from_dict

KIND = "spectral-vmamba embeddings"
METADATA_FILE = "metadata.json"
ARRAY_FILES = ("vectors.npy", "tokens.npy", "cells.npy", "images.csv")


@dataclass(frozen=True)
class StoreSettings:
    """What determines the vectors. Each shard carries a checksum of it."""

    images: str
    """fingerprint of the dataset"""
    count: int
    model: str
    features: FeatureKind
    vector: str
    weights: str
    preprocessing: dict[str, Any]
    tokens: bool
    format: str
    shard_size: int
    version: str

    def digest(self) -> str:
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class StoreMetadata:
    """The contents of metadata.json. `cells` are the row and column of every token; `root` is the images' folder."""

    settings: StoreSettings
    source: str
    root: str | None
    checkpoint: str | None
    image_size: int | None
    vector_length: int
    token_shape: tuple[int, int] | None
    cells: tuple[tuple[int, int], ...] | None
    quarter_turn_invariant: bool
    finished: bool = False
    embedded: int = 0
    unreadable: tuple[tuple[int, str, str], ...] = ()
    """index, name and reason of each image that could not be read"""
    sha256: dict[str, str] = field(default_factory=dict)
    """checksums of array files"""


class EmbeddingStore:
    """Reads and writes the shards of an output folder."""

    def __init__(self, path: str | Path, metadata: StoreMetadata):
        self.path, self.metadata = Path(path), metadata
        self.shard_format = FORMATS[metadata.settings.format]
        self.uses_arrays = metadata.settings.format == "npy"
        self.settings_digest = metadata.settings.digest()

    @property
    def shard_count(self) -> int:
        return -(-self.metadata.settings.count // self.metadata.settings.shard_size)

    def shard_path(self, number: int) -> Path:
        return self.path / f"part-{number:05d}.{self.shard_format.suffix}"

    def shard_rows(self, number: int) -> range:
        """The indices of a shard's images in the dataset."""
        size, count = self.metadata.settings.shard_size, self.metadata.settings.count
        return range(number * size, min((number + 1) * size, count))

    def open(self, overwrite: bool) -> None:
        """Create the store, or check that the folder contains a store with the same settings."""
        prepare_folder(self.path, "output folder")
        if overwrite:
            # The metadata last: until then the folder is the previous store.
            for path in (*_store_files(self.path), self.path / METADATA_FILE):
                path.unlink(missing_ok=True)
        if (self.path / METADATA_FILE).exists():
            stored = read_metadata(self.path)
            _check_settings(stored.settings, self.metadata.settings, self.path)
            if stored.finished:
                self.metadata = replace(
                    self.metadata,
                    finished=True,
                    embedded=stored.embedded,
                    unreadable=stored.unreadable,
                    sha256=stored.sha256,
                )
                return
        elif unexplained := next(iter(_store_files(self.path)), None):
            raise ValueError(
                f"{self.path} contains {unexplained.name} but no {METADATA_FILE} that describes it; choose another "
                f"output folder, or replace it with --overwrite (overwrite=True)"
            )
        self.write_metadata()

    def write_metadata(self, **changes: Any) -> None:
        self.metadata = replace(self.metadata, **changes)
        stored = {"kind": KIND, **asdict(self.metadata)}
        write_text(self.path / METADATA_FILE, json.dumps(stored, indent=1, ensure_ascii=False) + "\n")

    def finished_shard(self, number: int) -> Shard | None:
        """None if the shard has to be computed: missing, damaged, or made with other settings."""
        try:
            shard = self.shard_format.read(self.shard_path(number), True)
        except DamagedShard:
            return None
        complete = len(shard) + len(shard.unreadable) == len(self.shard_rows(number))
        return shard if complete and shard.settings_digest == self.settings_digest else None

    def missing_shards(self) -> list[int]:
        return [number for number in range(self.shard_count) if self.finished_shard(number) is None]

    def write_shard(self, number: int, shard: Shard) -> None:
        self.shard_format.write(self.shard_path(number), shard)

    def shards(self, with_tokens: bool = True) -> Iterator[Shard]:
        for number in range(self.shard_count):
            try:
                yield self.shard_format.read(self.shard_path(number), with_tokens)
            except DamagedShard as error:
                raise DamagedShard(f"{error}; run embed again with the same settings to replace this shard") from error

    def remove_shards(self) -> None:
        for number in range(self.shard_count):
            self.shard_path(number).unlink(missing_ok=True)


def read_metadata(folder: Path) -> StoreMetadata:
    path = folder / METADATA_FILE
    if not path.is_file():
        raise FileNotFoundError(f"no embeddings in {folder}: expected an output folder of `spectral-vmamba embed`")
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        kind = stored.pop("kind")
        if kind != KIND:
            raise ValueError(f"its kind is {kind!r}")
        if "features" not in stored.get("settings", {"features": None}):
            raise ValueError(
                "it is from an older version, which did not record the features; embed the images again, with "
                "--overwrite (overwrite=True) in the same folder"
            )
        return from_dict(StoreMetadata, stored)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not describe embeddings: {error}") from error


def _store_files(folder: Path) -> list[Path]:
    parts = [path for shard_format in FORMATS.values() for path in folder.glob(f"part-*.{shard_format.suffix}")]
    others = [folder / name for name in (*ARRAY_FILES, UNREADABLE_FILE)]
    return [*sorted(parts), *(path for path in others if path.exists())]


_OPAQUE_SETTINGS = {
    "images": "other images (their names, labels, sizes or modification times differ)",
    "weights": "other weights",
}


def _check_settings(previous: StoreSettings, given: StoreSettings, folder: Path) -> None:
    old, new = asdict(previous), asdict(given)
    changed = [name for name in new if json.dumps(old[name]) != json.dumps(new[name])]
    if not changed:
        return
    differences = [f"{name} {old[name]} (now {new[name]})" for name in changed if name not in _OPAQUE_SETTINGS]
    differences += [text for name, text in _OPAQUE_SETTINGS.items() if name in changed]
    raise ValueError(
        f"{folder} contains embeddings made with {'; '.join(differences)}. Use the same settings, choose another "
        f"output folder, or replace them with --overwrite (overwrite=True)"
    )
