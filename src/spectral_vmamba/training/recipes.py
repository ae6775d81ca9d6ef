"""Recipes: settings by name, from YAML files that come with the package."""

from pathlib import Path
from typing import Any

import yaml

from spectral_vmamba.training.train_config import TrainConfig

_HERE = Path(__file__).resolve()
# Beside the package once installed, at the top of the repository before.
_FOLDERS = (_HERE.parents[1] / "recipes", _HERE.parents[3] / "recipes")


def recipes() -> dict[str, Path]:
    found = {}
    for folder in reversed(_FOLDERS):
        found |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return found


def recipe(name: str, **changes: Any) -> TrainConfig:
    """Settings of a recipe, or of a YAML file, with some changed: recipe("laptop", data="photos/", epochs=50)."""
    known = recipes()
    path = known.get(name, Path(name))
    if not path.is_file():
        raise ValueError(f"no recipe {name!r}: neither a file nor one of {', '.join(known)}")
    usual, stored = TrainConfig().as_dict(), yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = {key: {**usual[key], **stored.get(key, {})} for key in ("augment", "optimizer")}
    unknown = (stored.keys() | changes.keys()) - usual.keys()
    if unknown:
        raise ValueError(f"{name} has no setting {sorted(unknown)[0]!r}; there are {', '.join(usual)}")
    return TrainConfig.from_dict({**usual, **stored, **groups, **changes})
