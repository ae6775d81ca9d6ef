"""Recipes: named settings in YAML files that ship with the package."""

from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.training.train_config import TrainConfig
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.settings import from_dict, nested_settings
from spectral_vmamba.utils.wording import closest

_HERE = Path(__file__).resolve()
# In an installed package, and at the top of the repository.
_FOLDERS = (_HERE.parents[1] / "recipes", _HERE.parents[3] / "recipes")


RecipeKind = Literal["classification", "segmentation"]
Config = TypeVar("Config", bound=RunConfig)


def list_recipes(kind: RecipeKind | None = "classification") -> dict[str, Path]:
    """The recipes that ship with the package, by name; None for those of every kind. Those of segmentation networks
    name a decoder."""
    found: dict[str, Path] = {}
    for folder in reversed(_FOLDERS):
        found |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return {name: path for name, path in found.items() if kind in (None, _kind_of(path))}


def _kind_of(path: Path) -> RecipeKind:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "segmentation" if any(line.startswith("decoder:") for line in lines) else "classification"


def find_recipe(name: str, kind: RecipeKind) -> Path:
    """The file of a recipe by its name, or the path of a YAML file of your own."""
    known = list_recipes(kind)
    path = known.get(name, Path(name))
    if path.is_file():
        return path
    if name in list_recipes(None):
        commands = {"classification": "segment train", "segmentation": "train"}  # those of the other kind
        raise ValueError(f"{name} is a recipe of `spectral-vmamba {commands[kind]}`; there are {', '.join(known)}")
    meant = closest(name, known)
    suggestion = f"; did you mean {meant}?" if meant else ""
    raise ValueError(f"no recipe {name!r}: neither a file nor one of {', '.join(known)}{suggestion}")


def recipe(name: str, **changes: Any) -> TrainConfig:
    """The settings of a recipe or of a YAML file, with changes. A group of settings may be changed in part.

    >>> from spectral_vmamba import recipe
    >>> config = recipe("laptop", data="photos/", epochs=50, augment={"rotation": 10})
    >>> config.epochs, config.augment.rotation, config.augment.vflip
    (50, 10, 0.5)
    """
    return read_recipe(TrainConfig, "classification", name, changes)


def read_recipe(config: type[Config], kind: RecipeKind, name: str, changes: dict[str, Any]) -> Config:
    """The settings of a recipe or of a YAML file, with changes. A group of settings may be changed in part."""
    stored = require("yaml", "train").safe_load(find_recipe(name, kind).read_text(encoding="utf-8"))
    defaults = asdict(config())
    unknown = (stored.keys() | changes.keys()) - defaults.keys()
    if unknown:
        raise ValueError(f"{name} has no setting {sorted(unknown)[0]!r}; there are {', '.join(defaults)}")
    groups = {}
    for group in nested_settings(config):
        change: Any = changes.get(group, {})
        if is_dataclass(change) and not isinstance(change, type):
            change = asdict(change)
        if not isinstance(change, dict):
            raise ValueError(f"expected names and values for {group}, as in {{{group}: {{…}}}}, got {change!r}")
        groups[group] = {**defaults[group], **stored.get(group, {}), **change}
    return from_dict(config, {**defaults, **stored, **changes, **groups})
