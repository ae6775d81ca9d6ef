"""The sizes at which a study can be run: which networks, which recipe, which data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPECTRAL, NO_RFN, CROSS_RFN, VMAMBA, RANDOM = (
    "Spectral VMamba",
    "Spectral VMamba without RFN",
    "VMamba with RFN",
    "VMamba",
    "random orders",
)


@dataclass(frozen=True)
class Scale:
    """`networks` maps what the studies compare to keywords of `recipe`: a model and its options.

    `data` is what is trained on unless other data is given, None if some must be. `frames` are those that its networks
    can have.
    """

    name: str
    recipe: str
    networks: Mapping[str, dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None
    frames: tuple[str, ...] = ("none", "quarter", "moment")


def _registered(size: str) -> dict[str, dict[str, Any]]:
    """The ablations of the registry. Frames are given by the studies, and off otherwise."""
    names = {
        SPECTRAL: f"spectral_vmamba_{size}",
        NO_RFN: f"spectral_vmamba_no_rfn_{size}",
        CROSS_RFN: f"vmamba_rfn_{size}",
        VMAMBA: f"vmamba_{size}",
        RANDOM: f"spectral_vmamba_random_{size}",
    }
    return {label: {"model": name} for label, name in names.items()}


def _lite() -> dict[str, dict[str, Any]]:
    """One body on the same frozen stem. VMamba is its cross-scan without RFN."""
    options = {
        SPECTRAL: {"turns": 4},
        NO_RFN: {"turns": 1},
        CROSS_RFN: {"turns": 4, "model_options": {"traversal": "cross"}},
        VMAMBA: {"turns": 1, "model_options": {"traversal": "cross"}},
        RANDOM: {"turns": 4, "model_options": {"traversal": "random"}},
    }
    return {label: {"model": "spectral_vmamba_lite", **each} for label, each in options.items()}


_UPRIGHT = {"rotation": 0.0, "vflip": 0.0}

SCALES = {
    scale.name: scale
    for scale in (
        Scale("digits", "digits", _registered("nano"), {"epochs": 6}, data="digits"),
        Scale("nano", "digits", _registered("nano"), {"epochs": 10, "augment": {"hflip": 0.5}}),
        Scale(
            "lite",
            "lite",
            _lite(),
            {"views": 4, "augment": {**_UPRIGHT, "color_jitter": 0.0}},
            frames=("none", "quarter", "moment", "upright"),
        ),
        Scale("paper", "paper", _registered("tiny"), {}),
    )
}
