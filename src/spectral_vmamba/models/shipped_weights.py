"""The trained weights that ship with the package, by name and tag, such as `spectral_vmamba_nano.digits`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

WEIGHTS_FOLDER = Path(__file__).resolve().parents[1] / "weights"
CATALOG_FILE = "catalog.json"
UNTRAINED = "untrained"  # the tag without weights
_PREFIX = "ema."  # checkpoints of this package; those that ship hold nothing but the averaged weights


@dataclass(frozen=True)
class ShippedWeights:
    """An entry of the catalog, which `benchmarks/ship_weights.py` writes."""

    name: str
    images: str
    """what the network classifies, in a few words"""
    license: str
    """of the weights, or the terms of the images that they were trained on"""
    classes: tuple[str, ...]
    image_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float
    interpolation: str
    model_options: dict[str, Any]
    sha256: str
    """of the file"""

    @property
    def architecture(self) -> str:
        return self.name.split(".", 1)[0]

    @property
    def tag(self) -> str:
        return self.name.split(".", 1)[1]

    @property
    def path(self) -> Path:
        return WEIGHTS_FOLDER / f"{self.name}.safetensors"

    def verified_path(self) -> Path:
        """The checkpoint file. Raises a FileNotFoundError if it is missing, a ValueError if it was changed; both say
        what to do."""
        if not self.path.is_file():
            raise FileNotFoundError(f"the weights {self.name} are missing at {self.path}; reinstall the package")
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != self.sha256:
            raise ValueError(
                f"{self.path} is damaged or of another version of the package: its SHA-256 is {digest[:12]}…, expected "
                f"{self.sha256[:12]}…; reinstall the package"
            )
        return self.path

    def state_dict(self) -> dict[str, Tensor]:
        """The weights in float32. Raises what `verified_path` raises."""
        tensors = load_file(self.verified_path())
        return {name.removeprefix(_PREFIX): tensor.float() for name, tensor in tensors.items()}


@cache
def shipped_weights() -> Mapping[str, ShippedWeights]:
    """The weights by name."""
    entries = json.loads((WEIGHTS_FOLDER / CATALOG_FILE).read_text(encoding="utf-8"))
    return {name: _read_entry(name, entry) for name, entry in entries.items()}


def _read_entry(name: str, entry: Mapping[str, Any]) -> ShippedWeights:
    tuples = {key: tuple(entry[key]) for key in ("classes", "mean", "std")}
    return ShippedWeights(**{**entry, **tuples, "name": name})


def weights_of(architecture: str) -> list[ShippedWeights]:
    """The weights that ship for an architecture. The first are those of `pretrained=True` without a tag."""
    return [weights for weights in shipped_weights().values() if weights.architecture == architecture]


def find_weights(name: str) -> ShippedWeights | None:
    """The weights of a name with a tag, as `spectral_vmamba_nano.digits`; None for other names. Raises a ValueError
    that lists what there is for an architecture whose tag is unknown."""
    found = shipped_weights().get(name)
    architecture, _, tag = name.partition(".")
    if found is None and tag and tag != UNTRAINED and (known := weights_of(architecture)):
        raise ValueError(
            f"no weights {name!r} ship with the package; there are {', '.join(each.name for each in known)}"
        )
    return found
