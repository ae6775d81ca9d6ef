"""Checkpoints: one safetensors file with a typed header. The header is read and written here only.

A checkpoint may come from a stranger. Its header is data: `load_checkpoint` checks types, sizes and the options of the
model before anything is built from them (`model_options`, `network`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar
from unicodedata import category

from torch import Tensor, nn

from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.header_conversion import convert_format_3
from spectral_vmamba.inference.model_options import check_model, check_values
from spectral_vmamba.models.decoder_config import DecoderConfig
from spectral_vmamba.models.shipped_weights import find_weights, weights_of
from spectral_vmamba.utils.settings import from_dict, to_json_dict
from spectral_vmamba.utils.tensor_file import TensorFileError, read_tensors, write_tensors

KIND = "spectral-vmamba checkpoint"
FORMAT = 4
BEST_FILE, LAST_FILE = "best.safetensors", "last.safetensors"

Weights = Literal["ema", "raw"]
WeightChoice = Weights | Literal["best"]
Value = TypeVar("Value")
_PREFIXES = ("raw.", "ema.", "optimizer.")
_MAX_CLASSES = 250_000
_MAX_PATH = 4096
_MAX_WINDOW = 2**14


class CheckpointError(ValueError):
    """The file is damaged, not a checkpoint of this package, or does not match the model."""


@dataclass(frozen=True)
class MaskHeader:
    """What a segmentation network has besides its backbone and classes."""

    decoder: DecoderConfig
    palette: tuple[tuple[int, int, int], ...]
    """the color of each class"""
    ignore_index: int
    """the value of pixels without a class in the training masks"""
    window: int
    """images are seen in windows of this many pixels per side, smaller images as a whole"""


@dataclass(frozen=True)
class CheckpointHeader:
    """Describes the weights of a checkpoint. `training` holds settings and progress of the run, for resuming."""

    model: str
    model_options: dict[str, Any]
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    split: DataSplit
    has_ema: bool
    best_weights: Weights = "raw"
    """which weights validated better at the last epoch that was finished before this file was written"""
    stem_sha256: str | None = None
    """over the tensors of the frozen stem, if there is one"""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """of the images of each part of the split: whether they changed since"""
    versions: dict[str, str] = field(default_factory=dict)
    masks: MaskHeader | None = None
    """of a segmentation network; `model` is then its backbone, and `classes` are those of pixels"""
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def available_weights(self) -> list[Weights]:
        return ["ema", "raw"] if self.has_ema else ["raw"]

    def training_setting(self, kind: type[Value], *names: str) -> Value | None:
        """A setting of the run, such as ("config", "augment", "smoothing"); None if it is missing or of another type:
        what a header contains for resuming is not checked."""
        value: Any = self.training
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, kind) else None


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    tensors: dict[str, Tensor]
    header: CheckpointHeader

    def with_prefix(self, prefix: str) -> dict[str, Tensor]:
        """The tensors below a prefix, under names without it."""
        start = prefix + "."
        return {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}

    def weights(self, which: WeightChoice) -> dict[str, Tensor]:
        """The averaged (ema) or raw weights, or those that validated better."""
        chosen = self.header.best_weights if which == "best" else which
        weights = self.with_prefix(chosen)
        if not weights:
            raise ValueError(f"{self.path} has no {chosen} weights; the run did not average them")
        return weights


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], header: CheckpointHeader) -> None:
    """Write atomically: afterwards `path` holds the complete new file, or the previous one."""
    write_tensors(path, tensors, KIND, {**to_json_dict(header), "format": FORMAT})


def find_checkpoint(path: str | Path) -> Path:
    """The checkpoint file itself, in the folder of a run that of the best epoch, or the weights of that name, such as
    `spectral_vmamba_nano.digits`, that ship with the package."""
    shipped = None if Path(path).exists() else find_weights(str(path))
    if shipped is not None:
        return shipped.verified_path()
    path = Path(path)
    if not path.is_dir():
        return path
    if not (path / BEST_FILE).exists() and (path / LAST_FILE).exists():
        raise ValueError(f"the run in {path} has not finished an epoch yet; resume it with --resume")
    return path / BEST_FILE


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint file; the tensors are memory-mapped."""
    if not path.is_file():
        ships = ", ".join(weights.name for weights in weights_of(path.name))
        raise FileNotFoundError(f"no checkpoint at {path}" + (f"; weights that ship: {ships}" if ships else ""))
    try:
        tensors, stored = read_tensors(path, KIND)
    except TensorFileError as error:
        raise CheckpointError(str(error)) from error
    version, versions = stored.pop("format", 0), stored.get("versions")
    stored.pop("kind")
    if not isinstance(version, int):
        raise CheckpointError(f"{path} has a header that cannot be read: its format is {version!r}")
    if version == 3:
        stored, version = convert_format_3(stored), FORMAT
    if version != FORMAT:
        age, remedy = ("a newer", "update this package") if version > FORMAT else ("an older", "train again")
        raise CheckpointError(f"{path} was written by {age} version of this package ({versions}); {remedy}")
    unknown = next((name for name in tensors if not name.startswith(_PREFIXES)), None)
    if unknown is not None:
        raise CheckpointError(f"{path} has an unexpected tensor {unknown[:100]!r}; expected names with {_PREFIXES}")
    try:
        return Checkpoint(path, tensors, _check_header(from_dict(CheckpointHeader, stored)))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{path} has a header that cannot be read: {error}") from error


def check_classes(classes: Sequence[str]) -> None:
    """Names that can be stored in a checkpoint and printed. Raises a ValueError."""
    if not 0 < len(classes) <= _MAX_CLASSES:
        raise ValueError(f"expected 1 to {_MAX_CLASSES:,} classes, got {len(classes):,}")
    unprintable = next((name for name in classes if any(category(letter) == "Cc" for letter in name)), None)
    if unprintable is not None:
        raise ValueError(f"the class {unprintable[:60]!r} contains control characters; rename it")


def _check_header(header: CheckpointHeader) -> CheckpointHeader:
    check_classes(header.classes)
    for source in (header.split.data, header.split.val_data or ""):
        if len(source) > _MAX_PATH or not source.isprintable():
            raise ValueError(f"the name of the data contains control characters or is too long: {source[:60]!r}")
    if header.masks is not None:
        _check_masks(header.masks, len(header.classes))
    return replace(header, model_options=check_model(header.model, header.model_options))


def _check_masks(masks: MaskHeader, classes: int) -> None:
    for key, value in masks.decoder.decoder_options.items():
        check_values(key, value)
    if len(masks.palette) != classes or not all(0 <= part < 256 for color in masks.palette for part in color):
        raise ValueError(f"expected a color from 0 to 255 for each of the {classes} classes")
    if not 0 <= masks.ignore_index < 256:
        raise ValueError(f"expected an ignore index from 0 to 255, got {masks.ignore_index}")
    if not 1 <= masks.window <= _MAX_WINDOW:
        raise ValueError(f"expected windows of 1 to {_MAX_WINDOW:,} pixels per side, got {masks.window:,}")


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights into a model, or raise a CheckpointError that names the mismatch."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint does not match the model: {error}") from error
