"""The feature store of one stem and one preprocessing: a folder of feature blocks, and their visiting orders.

    FOLDER/<stem and settings>/description.json                the settings that the folder's name is a hash of
    FOLDER/<stem and settings>/features/<block>.safetensors    keys and features of some views
    FOLDER/<stem and settings>/orders-<STS settings>/<block>.safetensors    their visiting orders, row by row

Rows are found by keys computed from the image's content and the view. Runs share rows, and a changed image or setting
is another row or folder. Orders are computed from the features as stored.
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
from spectral_vmamba.features.blocks import Block, new_block_name, read_blocks, write_block
from spectral_vmamba.features.cached_views import KEY_BYTES
from spectral_vmamba.models import SpectralTokenizer, SpectralVMamba
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import DEFAULT_RULES
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.utils.progress import Progress, no_progress
from spectral_vmamba.utils.tensor_file import digest_tensors

Precision = Literal["float16", "float32"]
_FORMAT = 5
_FEATURE_SETTINGS = ("stem", "patch_size", "turns", "turn_pool", "frame", "domain")
_ORDER_SETTINGS = ("eigenvectors", "neighbors", "solver")
_PACKAGES_BEHIND_VIEWS = ("torch", "torchvision", "timm", "pillow", "numpy", "scipy")
_TRAVERSAL_TENSORS = ("ranks", "content", "orders")


@dataclass(eq=False)
class FeatureStore:
    """Stored rows of features and visiting orders, to look up and to extend."""

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
        self.block_names: list[str] = []  # in the order in which their rows are numbered
        self.first_rows: list[int] = []
        self.row_by_key: dict[bytes, int] = {}
        self.refresh()

    @property
    def feature_bytes(self) -> int:
        """Size of a row of features with its key."""
        return KEY_BYTES + len(self.grid.cells()) * self.channels * self.dtype.itemsize

    @property
    def order_bytes(self) -> int:
        """Size of a row of visiting orders."""
        orders_per_row = 3 * self.tokenizer.config.eigenvectors + 1  # ranks, orders in both directions, content
        return self._order_dtype.itemsize * len(self.grid.cells()) * orders_per_row if self._is_spectral else 0

    def rows(self, keys: Sequence[bytes]) -> list[int]:
        """The row of each key; −1 for keys that are not stored."""
        return [self.row_by_key.get(key, -1) for key in keys]

    def add(self, keys: Sequence[bytes], features: Float[Tensor, "n l c"]) -> None:
        name, stored = new_block_name(), features.to(self.dtype)
        if not stored.isfinite().all():
            finite = features.isfinite().all()
            problem = f"too large for {self.dtype}; use --cache-precision float32" if finite else "not finite"
            raise ValueError(f"the stem's features of an image are {problem}")
        block = {"keys": torch.tensor(list(map(list, keys)), dtype=torch.uint8), "features": stored}
        self.features[name] = write_block(self.folder / "features", name, block)
        self._register(name, block)

    def blocks_without_orders(self, keys: Iterable[bytes]) -> list[str]:
        """The blocks of these keys' rows whose visiting orders are missing."""
        if not self._is_spectral:
            return []
        blocks = {self._locate(self.row_by_key[key])[0] for key in keys if key in self.row_by_key}
        return sorted(blocks - self.orders.keys())

    def compute_orders(self, keys: Iterable[bytes], rank: int = 0, world_size: int = 1) -> None:
        """Compute the missing visiting orders of these keys' blocks; this process's share, by block name."""
        missing = [name for name in self.blocks_without_orders(keys) if int(name, 16) % world_size == rank]
        if not missing:
            return
        for name in self.progress(missing, "visiting orders", len(missing)):
            traversal = self.tokenizer.traverse(self.features[name]["features"].float(), self.grid)
            block = {part: getattr(traversal, part).to(self._order_dtype) for part in _TRAVERSAL_TENSORS}
            self.orders[name] = write_block(_orders_folder(self.folder, self.tokenizer), name, block)

    def tokens(self, rows: Sequence[int]) -> Tokens:
        """The tokenizer's output for these rows, without the frame, which pooled outputs do not need."""
        places = [self._locate(row) for row in rows]
        x = torch.stack([self.features[name]["features"][row] for name, row in places]).float()
        if not self._is_spectral:
            return Tokens(x, self.tokenizer.traverse(x, self.grid), None)
        parts = {
            part: torch.stack([self.orders[name][part][row] for name, row in places]).long()
            for part in _TRAVERSAL_TENSORS
        }
        return Tokens(x, Traversal(self.grid, **parts), None)

    def refresh(self) -> None:
        """Load what other processes have written. Damaged files are deleted, with a note: their rows are missing."""
        description = "checking the feature cache"
        added, damaged = read_blocks(self.folder / "features", self.features, self.note, self.progress, description)
        for name in damaged:
            for orders in self.folder.glob(f"orders-*/{name}.safetensors"):
                orders.unlink(missing_ok=True)
        for name, block in added.items():
            self.features[name] = block
            self._register(name, block)
        if self._is_spectral:
            folder = _orders_folder(self.folder, self.tokenizer)
            description = "checking the visiting orders"
            self.orders |= read_blocks(folder, self.orders, self.note, self.progress, description)[0]

    @property
    def _is_spectral(self) -> bool:
        return self.tokenizer.config.traversal == "spectral"

    @property
    def _order_dtype(self) -> torch.dtype:
        """The smallest one that can hold the number of every token."""
        return torch.int16 if len(self.grid.cells()) - 1 <= torch.iinfo(torch.int16).max else torch.int32

    def _locate(self, row: int) -> tuple[str, int]:
        """The name of a row's block, and its row there."""
        block = bisect_right(self.first_rows, row) - 1
        return self.block_names[block], row - self.first_rows[block]

    def _register(self, name: str, block: Block) -> None:
        first = self.first_rows[-1] + len(self.features[self.block_names[-1]]["keys"]) if self.block_names else 0
        self.block_names.append(name)
        self.first_rows.append(first)
        for row, key in enumerate(block["keys"].numpy()):
            self.row_by_key[key.tobytes()] = first + row


def frozen_tokenizer(model: nn.Module) -> SpectralTokenizer:
    """The part of a network whose outputs can be cached. Raises ValueError if training changes it."""
    if isinstance(model, SpectralVMamba) and model.tokenizer.is_fixed:
        return model.tokenizer
    raise ValueError(
        f"caching features requires a frozen stem and orders that depend on its features alone, which this "
        f"{type(model).__name__} does not have; "
        "use spectral_vmamba_lite, whose stem is frozen by default, or pass --no-cache"
    )


def default_cache_folder(folder: str | Path | None = None) -> Path:
    """`folder` if given, else a folder in the user's cache folder."""
    if folder:
        return Path(folder).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spectral_vmamba" / "features"


def find_store(
    root: Path, tokenizer: SpectralTokenizer, preprocessing: Preprocessing, precision: Precision
) -> Path | None:
    """The folder of the store below `root`, None if there is none."""
    folder = root / _digest_settings(_describe(tokenizer, preprocessing, precision))
    return folder if (folder / "description.json").is_file() else None


def open_store(
    root: Path,
    tokenizer: SpectralTokenizer,
    preprocessing: Preprocessing,
    precision: Precision = "float16",
    note: Callable[[str], None] = lambda text: None,
    progress: Progress = no_progress,
) -> FeatureStore:
    """Open or create the store below `root`. Verifies every file; damaged ones are deleted, with a note."""
    description = _describe(tokenizer, preprocessing, precision)
    folder = root / _digest_settings(description)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "description.json").write_text(json.dumps(description, indent=1), encoding="utf-8")
    except OSError as error:
        raise OSError(f"cannot write to the feature cache {folder}: {error.strerror or error}") from error
    with torch.no_grad():
        parameter = next(tokenizer.parameters())
        example = torch.zeros(1, tokenizer.in_chans, preprocessing.size, preprocessing.size).to(parameter)
        tokens, grid, _ = tokenizer.features(example)
    dtype = getattr(torch, precision)
    return FeatureStore(folder, tokenizer, preprocessing, dtype, grid, tokens.shape[-1], note, progress)


def _describe(tokenizer: SpectralTokenizer, preprocessing: Preprocessing, precision: Precision) -> dict[str, Any]:
    settings = asdict(tokenizer.config)
    return {
        "format": _FORMAT,
        "versions": {"spectral_vmamba": __version__, **{name: version(name) for name in _PACKAGES_BEHIND_VIEWS}},
        "precision": precision,
        "preprocessing": asdict(preprocessing),
        "in_chans": tokenizer.in_chans,
        "stem_weights": digest_tensors(tokenizer.rfn.stem.state_dict()),
        **{name: settings[name] for name in _FEATURE_SETTINGS},
        **({} if tokenizer.upright is None else {"upright_score": digest_tensors(tokenizer.upright.state_dict())}),
    }


def _orders_folder(folder: Path, tokenizer: SpectralTokenizer) -> Path:
    settings, rules = asdict(tokenizer.config), tokenizer.config.rules
    chosen = {name: settings[name] for name in _ORDER_SETTINGS}
    return folder / f"orders-{_digest_settings({**chosen, **({} if rules == DEFAULT_RULES else asdict(rules))})}"


def _digest_settings(settings: dict[str, Any]) -> str:
    return sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
