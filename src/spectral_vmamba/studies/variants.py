"""The networks that a study compares, and what the options of the user change in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectral_vmamba.inference.model_options import check_model, storable_options
from spectral_vmamba.models import is_spectral, option_of, options_off_default
from spectral_vmamba.studies.scales import Scale
from spectral_vmamba.studies.study import StudyOptions

_OF_STUDY = {
    *("data", "val_data", "seed", "split_seed", "output", "workers", "cache_folder", "tracker", "initial"),
    *("model", "model_options", "frame", "turns", "epochs", "image_size"),
}


@dataclass(frozen=True)
class Variant:
    """One network of a study: `settings` are keywords of `recipe`, as model, model_options, frame and turns."""

    label: str
    settings: Mapping[str, Any]

    def with_frame(self, frame: str) -> "Variant":
        """`upright` turns an image once: more turns would hide the position that it has found."""
        turns = {"turns": 1} if frame == "upright" else {}
        return replace(self, settings={**self.settings, "frame": frame, **turns})

    def with_options(self, label: str, **model_options: Any) -> "Variant":
        merged = {**self.settings.get("model_options", {}), **model_options}
        return Variant(label, {**self.settings, "model_options": merged})


def networks(scale: Scale, *labels: str) -> list[Variant]:
    """Networks of the scale, without a frame."""
    return [Variant(label, {**scale.networks[label], "frame": "none"}) for label in labels]


def choose_variants(options: StudyOptions, variants: Sequence[Variant]) -> list[Variant]:
    """Those that `options.networks` and `options.frames` name. Raises a ValueError that lists the choices."""
    frames = [str(each.settings.get("frame", "none")) for each in variants]
    _check_choices("network", options.networks, [each.label for each in variants])
    _check_choices("frame", options.frames, frames)
    chosen = [
        each
        for each, frame in zip(variants, frames, strict=True)
        if (not options.networks or each.label in options.networks) and (not options.frames or frame in options.frames)
    ]
    if not chosen:
        shown = ", ".join(repr(each) for each in options.networks)
        raise ValueError(f"this study has {shown} with other frames than {', '.join(options.frames)}")
    return chosen


def _check_choices(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [each for each in given if each not in known]
    if unknown:
        listed = ", ".join(repr(each) for each in dict.fromkeys(known))
        raise ValueError(f"this study has no {what} {unknown[0]!r}; it has {listed}")


def merge_settings(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Training settings with changes; groups such as `augment` are changed in part. Raises a ValueError for settings
    that a study chooses itself."""
    chosen = sorted(_OF_STUDY & changes.keys())
    if chosen:
        raise ValueError(f"{chosen[0]} is chosen by the study or by an option of its own; leave it out of --settings")
    groups = {
        name: {**settings.get(name, {}), **value} for name, value in changes.items() if isinstance(value, Mapping)
    }
    return {**settings, **changes, **groups}


def check_compared(options: StudyOptions, variants: Sequence[Variant]) -> None:
    """Raise a ValueError if the options of the user are among those that the study chooses, or in which its networks
    differ."""
    chosen = sorted(options.model_options.keys() & {name for each in variants for name in each.settings})
    if chosen:
        raise ValueError(f"{chosen[0]} is chosen by the study; leave it out of --model-options")
    networks = [(each.settings["model"], each.settings.get("model_options", {})) for each in variants]
    for name in options.model_options:
        values = [own.get(name, option_of(model, name, own)) for model, own in networks if is_spectral(model)]
        if any(value != values[0] for value in values):
            shown = ", ".join(dict.fromkeys(str(value) for value in values))
            raise ValueError(f"the networks of this study differ in {name} ({shown}); leave it out of --model-options")


def merge_model_options(
    options: StudyOptions, settings: Mapping[str, Any], of_recipe: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """The options of a network of the study, given its settings. Raises a ValueError that names the network."""
    model, own = settings["model"], settings.get("model_options", {})
    merged = {**of_recipe, **own, **options.model_options} if is_spectral(model) else own
    try:
        check_model(model, storable_options(merged))
    except ValueError as error:
        raise ValueError(f"{model}, a network of the study: {error}") from error
    if is_spectral(model) and option_of(model, "traversal", merged) == "random":
        merged = {**merged, "seed": seed}
    return options_off_default(model, merged)
