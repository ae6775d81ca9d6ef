"""The cache of one stem with one preprocessing: a folder of feature blocks, and beside each its visiting orders.

    FOLDER/<stem and settings>/facts.json                     what the name stands for, in words
    FOLDER/<stem and settings>/features/<block>.safetensors   keys and features of some views
    FOLDER/<stem and settings>/orders-<STS settings>/<block>.safetensors   their visiting orders, row by row

Rows are found by keys made from the image's content and the view, so that runs share them, and a changed image or
setting is simply another row or folder. Orders are those of the features as they are stored.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba._version import __version__
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.features.blocks import Block, new_name, read_blocks, write_block
from spectral_vmamba.features.cached_views import KEY_BYTES
from spectral_vmamba.models import SpectralTokenizer, SpectralVMamba
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.utils.progress import Progress, quiet
from spectral_vmamba.utils.tensor_file import digest_of

Precision = Literal["float16", "float32"]
_FORMAT = 1
_OF_FEATURES = ("stem", "patch_size", "rotations", "canonical_frame", "domain")
_MAKES_VIEWS = ("torch", "torchvision", "timm", "pillow")
_OF_ORDERS = ("eigenvectors", "neighbors", "solver")


@dataclass(eq=False)
class FeatureCache:
    """Rows that are there already, and room for more."""

    folder: Path
    tokenizer: SpectralTokenizer
    preprocessing: Preprocessing
    dtype: torch.dtype
    grid: Grid
    channels: int
    note: Callable[[str], None]
    progress: Progress

    def __post_init__(self):
        self.features: dict[str, Block] = {}
        self.orders: dict[str, Block] = {}
        self.names: list[str] = []  # of blocks, in the order in which their rows are numbered
        self.starts: list[int] = []
        self.numbers: dict[bytes, int] = {}
        self.refresh()

    @property
    def feature_bytes(self) -> int:
        """Of a row, with its key."""
        return KEY_BYTES + len(self.grid.cells()) * self.channels * self.dtype.itemsize

    @property
    def order_bytes(self) -> int:
        ranks_orders_content = 3 * self.tokenizer.config.eigenvectors + 1
        return 2 * len(self.grid.cells()) * ranks_orders_content if self._is_spectral else 0

    def rows(self, keys: Sequence[bytes]) -> list[int]:
        """Where each of the keys has its row; −1 for those that have none."""
        return [self.numbers.get(key, -1) for key in keys]

    def add(self, keys: Sequence[bytes], features: Float[Tensor, "n l c"]) -> None:
        name, kept = new_name(), features.to(self.dtype)
        if not kept.isfinite().all():
            finite = features.isfinite().all()
            why = f"too large for {self.dtype}; use --cache-precision float32" if finite else "no finite numbers"
            raise ValueError(f"the stem's features of a image are {why}")
        block = {"keys": torch.tensor(list(map(list, keys)), dtype=torch.uint8), "features": kept}
        self.features[name] = write_block(self.folder / "features", name, block)
        self._enter(name, block)

    def unordered(self, keys: Iterable[bytes]) -> list[str]:
        """The blocks of these keys' rows whose visiting orders are still missing."""
        if not self._is_spectral:
            return []
        blocks = {self._place(self.numbers[key])[0] for key in keys if key in self.numbers}
        return sorted(blocks - self.orders.keys())

    def order(self, keys: Iterable[bytes], mine: int = 0, of: int = 1) -> None:
        """Find the visiting orders that are still missing; of several processes each takes blocks by their names."""
        waiting = [name for name in self.unordered(keys) if int(name, 16) % of == mine]
        if not waiting:
            return
        for name in self.progress(waiting, "visiting orders", len(waiting)):
            traversal = self.tokenizer.traverse(self.features[name]["features"].float(), self.grid)
            block = {part: getattr(traversal, part).to(torch.int16) for part in ("ranks", "content", "orders")}
            self.orders[name] = write_block(_orders_folder(self.folder, self.tokenizer), name, block)

    def tokens(self, rows: Sequence[int]) -> Tokens:
        """What the tokenizer says about these views, but for the frame, which a pooled answer does not need."""
        places = [self._place(row) for row in rows]
        x = torch.stack([self.features[name]["features"][row] for name, row in places]).float()
        if not self._is_spectral:
            return Tokens(x, self.tokenizer.traverse(x, self.grid), None)
        parts = {
            part: torch.stack([self.orders[name][part][row] for name, row in places]).long()
            for part in ("ranks", "content", "orders")
        }
        return Tokens(x, Traversal(self.grid, **parts), None)

    def refresh(self) -> None:
        """Find what others have written. Damaged files are removed, with a note: their rows are missing then."""
        told = "checking the cache"
        added, damaged = read_blocks(self.folder / "features", self.features, self.note, self.progress, told)
        for name in damaged:
            for orders in self.folder.glob(f"orders-*/{name}.safetensors"):
                orders.unlink(missing_ok=True)
        for name, block in added.items():
            self.features[name] = block
            self._enter(name, block)
        if self._is_spectral:
            folder = _orders_folder(self.folder, self.tokenizer)
            told = "checking the visiting orders"
            self.orders |= read_blocks(folder, self.orders, self.note, self.progress, told)[0]

    @property
    def _is_spectral(self) -> bool:
        return self.tokenizer.config.traversal == "spectral"

    def _place(self, row: int) -> tuple[str, int]:
        """Its block, and where it is there."""
        block = bisect_right(self.starts, row) - 1
        return self.names[block], row - self.starts[block]

    def _enter(self, name: str, block: Block) -> None:
        start = self.starts[-1] + len(self.features[self.names[-1]]["keys"]) if self.names else 0
        self.names.append(name)
        self.starts.append(start)
        for row, key in enumerate(block["keys"].numpy()):
            self.numbers[key.tobytes()] = start + row


def frozen_tokenizer(model: nn.Module) -> SpectralTokenizer:
    """The part of a network whose answers can be kept."""
    if isinstance(model, SpectralVMamba) and model.tokenizer.is_fixed:
        return model.tokenizer
    raise ValueError(
        f"a cache keeps what a frozen stem says about images, and this {type(model).__name__} has none that stays as "
        "it is; take spectral_vmamba_lite, or leave --cache out"
    )


def cache_root(folder: str | None = None) -> Path:
    """The folder itself if one is given; else below the user's own cache folder."""
    if folder:
        return Path(folder).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spectral_vmamba" / "features"


def open_cache(
    root: Path,
    tokenizer: SpectralTokenizer,
    preprocessing: Preprocessing,
    precision: Precision = "float16",
    note: Callable[[str], None] = lambda text: None,
    progress: Progress = quiet,
) -> FeatureCache:
    """Checks every file of the cache; damaged ones are removed, with a note, and their rows are missing then."""
    facts = _facts(tokenizer, preprocessing, precision)
    folder = root / _name(facts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write to the cache {folder}: {error.strerror or error}") from error
    with torch.no_grad():
        parameter = next(tokenizer.parameters())
        example = torch.zeros(1, tokenizer.in_chans, preprocessing.size, preprocessing.size).to(parameter)
        tokens, grid, _ = tokenizer.features(example)
    dtype = getattr(torch, precision)
    return FeatureCache(folder, tokenizer, preprocessing, dtype, grid, tokens.shape[-1], note, progress)


def _facts(tokenizer: SpectralTokenizer, preprocessing: Preprocessing, precision: Precision) -> dict[str, Any]:
    settings = asdict(tokenizer.config)
    return {
        "format": _FORMAT,
        "versions": {"spectral_vmamba": __version__, **{name: version(name) for name in _MAKES_VIEWS}},
        "precision": precision,
        "preprocessing": asdict(preprocessing),
        "in_chans": tokenizer.in_chans,
        "stem weights": digest_of(tokenizer.rfn.stem.state_dict()),
        **{name: settings[name] for name in _OF_FEATURES},
    }


def _orders_folder(folder: Path, tokenizer: SpectralTokenizer) -> Path:
    settings = asdict(tokenizer.config)
    return folder / f"orders-{_name({name: settings[name] for name in _OF_ORDERS})}"


def _name(facts: dict[str, Any]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
