"""Finding models by name, ours and timm's."""

from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.variants import FAMILIES


def list_models() -> list[str]:
    """The names this package registers with timm, family by family, small to large."""
    return [name for family in FAMILIES.values() for name in family]


def create_model(name: str, **kwargs: Any) -> Any:
    """`timm.create_model` for ours and timm's models; an unknown name is answered with close ones.

    timm drops keywords that are None; for our models they are choices, and arrive.
    """
    architecture = name.split(".")[0]
    if ":" not in name and not timm.is_model(architecture):
        close = get_close_matches(architecture.lower().replace("-", "_"), timm.list_models(), n=4)
        known = f"close names: {', '.join(close)}" if close else f"this package has {', '.join(list_models())}"
        raise ValueError(f"no model is called {name!r}; {known}")
    if architecture in FAMILIES["Spectral VMamba"]:
        choices = {field.name for field in fields(SpectralConfig)}
        kwargs = {key: "none" if value is None and key in choices else value for key, value in kwargs.items()}
    return timm.create_model(name, **kwargs)
