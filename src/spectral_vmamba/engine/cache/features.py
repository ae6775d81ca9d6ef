"""The cache of one stem with one preprocessing: a folder of feature blocks, and beside each its visiting orders.

    FOLDER/<stem and settings>/facts.json                     what the name stands for, in words
    FOLDER/<stem and settings>/features/<block>.safetensors   keys and features of some views
    FOLDER/<stem and settings>/orders-<STS settings>/<block>.safetensors   their visiting orders, row by row

Rows are found by keys made from the picture's content and the view, so that runs share them, and a changed picture or
setting is simply another row or folder. Orders are those of the features as they are stored.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba._version import __version__
from spectral_vmamba.data.views import Preprocessing
from spectral_vmamba.engine.cache.blocks import Block, new_name, read_blocks, write_block
from spectral_vmamba.engine.cache.views import KEY_BYTES
from spectral_vmamba.engine.progress import Progress, quiet
from spectral_vmamba.engine.tensor_file import digest_of
from spectral_vmamba.models import SpectralEmbedding, SpectralVMamba
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal

Precision = Literal["float16", "float32"]
_FORMAT = 1
_OF_FEATURES = ("stem", "patch_size", "rotations", "canonical_frame", "domain")
_OF_ORDERS = ("eigenvectors", "neighbors", "solver")


@dataclass(eq=False)
class FeatureCache:
    """Rows that are there already, and room for more."""

    folder: Path
    embedding: SpectralEmbedding
    preprocessing: Preprocessing
    dtype: torch.dtype
    grid: Grid
    channels: int
    features: dict[str, Block]
    orders: dict[str, Block]
    note: Callable[[str], None]
    progress: Progress

    def __post_init__(self):
        self.names: list[str] = []  # of blocks, in the order in which their rows are numbered
        self.starts: list[int] = []
        self.numbers: dict[bytes, int] = {}
        for name, block in self.features.items():
            self._enter(name, block)

    @property
    def row_bytes(self) -> int:
        tokens = len(self.grid.cells())
        paths = 3 * self.embedding.config.eigenvectors + 1 if self._is_spectral else 0
        return KEY_BYTES + tokens * (self.channels * self.dtype.itemsize + 2 * paths)

    def rows(self, keys: Sequence[bytes]) -> list[int]:
        """Where each of the keys has its row; −1 for those that have none."""
        return [self.numbers.get(key, -1) for key in keys]

    def add(self, keys: Sequence[bytes], features: Float[Tensor, "n l c"]) -> None:
        name = new_name()
        block = {"keys": torch.tensor(list(map(list, keys)), dtype=torch.uint8), "features": features.to(self.dtype)}
        self.features[name] = write_block(self.folder / "features", name, block)
        self._enter(name, block)

    def order(self) -> None:
        """Find the visiting orders that are still missing."""
        waiting = [name for name in self.features if name not in self.orders] if self._is_spectral else []
        if not waiting:
            return
        for name in self.progress(waiting, "visiting orders", len(waiting)):
            traversal = self.embedding.traverse(self.features[name]["features"].float(), self.grid)
            block = {part: getattr(traversal, part).to(torch.int16) for part in ("ranks", "content", "orders")}
            self.orders[name] = write_block(_orders_folder(self.folder, self.embedding), name, block)

    def tokens(self, rows: Sequence[int]) -> Tokens:
        """What the embedding says about these views, but for the frame, which a pooled answer does not need."""
        blocks = [bisect_right(self.starts, row) - 1 for row in rows]
        places = [(self.names[block], row - self.starts[block]) for block, row in zip(blocks, rows, strict=True)]
        x = torch.stack([self.features[name]["features"][row] for name, row in places]).float()
        if not self._is_spectral:
            return Tokens(x, self.embedding.traverse(x, self.grid), None)
        parts = {
            part: torch.stack([self.orders[name][part][row] for name, row in places]).long()
            for part in ("ranks", "content", "orders")
        }
        return Tokens(x, Traversal(self.grid, **parts), None)

    @property
    def _is_spectral(self) -> bool:
        return self.embedding.config.traversal == "spectral"

    def _enter(self, name: str, block: Block) -> None:
        start = self.starts[-1] + len(self.features[self.names[-1]]["keys"]) if self.names else 0
        self.names.append(name)
        self.starts.append(start)
        for row, key in enumerate(block["keys"].numpy()):
            self.numbers[key.tobytes()] = start + row


def fixed_embedding(model: nn.Module) -> SpectralEmbedding:
    """The part of a network whose answers can be kept."""
    if isinstance(model, SpectralVMamba) and model.embedding.is_fixed:
        return model.embedding
    raise ValueError(
        f"a cache keeps what a frozen stem says about pictures, and this {type(model).__name__} has none that stays as "
        "it is; take spectral_vmamba_lite, or leave --cache out"
    )


def cache_root(folder: str | None = None) -> Path:
    """The folder itself if one is given; else below the user's own cache folder."""
    if folder:
        return Path(folder)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spectral_vmamba" / "features"


def open_cache(
    root: Path,
    embedding: SpectralEmbedding,
    preprocessing: Preprocessing,
    precision: Precision = "float16",
    note: Callable[[str], None] = lambda text: None,
    progress: Progress = quiet,
) -> FeatureCache:
    """Checks every file of the cache; damaged ones are removed, with a note, and their rows are missing then."""
    facts = _facts(embedding, preprocessing, precision)
    folder = root / _name(facts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write to the cache {folder}: {error.strerror or error}") from error
    with torch.no_grad():
        parameter = next(embedding.parameters())
        example = torch.zeros(1, embedding.in_chans, preprocessing.size, preprocessing.size).to(parameter)
        tokens, grid, _ = embedding.features(example)
    features = read_blocks(folder / "features", note, progress)
    ordered = {}
    if embedding.config.traversal == "spectral":
        ordered = read_blocks(_orders_folder(folder, embedding), note, progress, "checking the visiting orders")
    return FeatureCache(
        folder,
        embedding,
        preprocessing,
        getattr(torch, precision),
        grid,
        tokens.shape[-1],
        features,
        {name: block for name, block in ordered.items() if name in features},
        note,
        progress,
    )


def _facts(embedding: SpectralEmbedding, preprocessing: Preprocessing, precision: Precision) -> dict[str, Any]:
    settings = asdict(embedding.config)
    return {
        "format": _FORMAT,
        "spectral_vmamba": __version__,
        "precision": precision,
        "preprocessing": asdict(preprocessing),
        "in_chans": embedding.in_chans,
        "stem weights": digest_of(embedding.rfn.stem.state_dict()),
        **{name: settings[name] for name in _OF_FEATURES},
    }


def _orders_folder(folder: Path, embedding: SpectralEmbedding) -> Path:
    settings = asdict(embedding.config)
    return folder / f"orders-{_name({name: settings[name] for name in _OF_ORDERS})}"


def _name(facts: dict[str, Any]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
