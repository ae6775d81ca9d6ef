"""Build the networks of a family through timm, and the default configurations that timm keeps for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg, generate_default_cfgs, get_pretrained_cfg

from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.conversion import convert_pretrained
from spectral_vmamba.models.network_config import HierarchyConfig, NetworkConfig
from spectral_vmamba.models.recorded_options import (
    CFG_KEY,
    read_options,
    record_options,
    warn_of_other_options,
    warn_of_unknown_options,
)
from spectral_vmamba.models.shipped_weights import UNTRAINED, ShippedWeights, find_weights, weights_of

_SOURCES = {"file", "url", "state_dict", "hf_hub_id"}  # entries of timm's configuration that name weights


@dataclass(frozen=True)
class Family:
    """A network class, and the architectures that are registered with timm, small to large.

    `title` is the name of the family in tables; `architectures` maps each registered name to keywords of `network`.
    """

    title: str
    network: type[Classifier]
    architectures: Mapping[str, Mapping[str, Any]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.architectures)

    def default_cfgs(self, paper_name: str, sizes: Mapping[str, int]) -> Any:
        """Return timm's default configurations of all names, without and with weights that ship with the package.
        `sizes` maps names to image sizes other than 224."""
        cfgs = {}
        for name in self.names:
            size = sizes.get(name, 224)
            entries = self.network.cfg_entries(self.config(name), (size, size))
            cfgs[f"{name}.{UNTRAINED}"] = default_cfg(size, paper_name=paper_name, **entries)
            for weights in weights_of(name):
                cfgs[weights.name] = self._shipped_cfg(weights, paper_name)
        generated = generate_default_cfgs(cfgs)
        for each in generated.values():  # timm puts weights first; a network without a tag has the default options
            each.tags.remove(UNTRAINED)
            each.tags.appendleft(UNTRAINED)
        return generated

    def _shipped_cfg(self, weights: ShippedWeights, paper_name: str) -> dict[str, Any]:
        size = weights.image_size
        entries = self.network.cfg_entries(self.config(weights.architecture, **weights.model_options), (size, size))
        return default_cfg(size, paper_name=paper_name, **{**entries, **_cfg_of(weights)})

    def config(self, name: str, **kwargs: Any) -> NetworkConfig:
        """Return the configuration of a registered architecture, changed by `kwargs`. Keywords that are no fields of
        it, such as `num_classes`, are ignored."""
        known = {field.name for field in fields(self.network.config_class)}
        keywords = {**self.architectures[name], **kwargs}
        return self.network.config_class.from_keywords(
            **{key: value for key, value in keywords.items() if key in known}
        )

    def build(
        self, name: str, pretrained: bool, pretrained_cfg: Any = None, pretrained_cfg_overlay: Any = None, **kwargs: Any
    ) -> Any:
        """Build a registered network, changed by `kwargs`.

        Options that are recorded in `pretrained_cfg` (see `recorded_options`), or in the catalog of the weights that
        ship with the package, apply unless `kwargs` has others.
        """
        has_own_weights = not _SOURCES.isdisjoint(pretrained_cfg_overlay or {})
        shipped = find_weights(_name_with_tag(name, pretrained and not has_own_weights, pretrained_cfg))
        pretrained_cfg, recorded = read_options(pretrained_cfg, self.network.config_class)
        if shipped is not None:
            pretrained_cfg, recorded = shipped.tag, shipped.model_options
        options = {**recorded, **kwargs}
        if kwargs.get("features_only"):
            options = {**recorded, **self.config(name, **options).features_only_options, **kwargs}
        config = self.config(name, **options)
        _check_out_indices(name, config, kwargs.get("out_indices"))
        if pretrained:
            warn_of_other_options(name, recorded, config)
            warn_of_unknown_options(name, pretrained_cfg, {**recorded, **kwargs}, config)
        kwargs = {**self.architectures[name], **options}
        given = _cfg_of(shipped) if shipped else pretrained_cfg if isinstance(pretrained_cfg, dict) else {}
        entries = self._cfg_entries(name, config, given)
        if shipped is not None and pretrained and not has_own_weights:
            entries["state_dict"] = shipped.state_dict()
        model: Any = build_model_with_cfg(
            self.network,
            name,
            pretrained,
            pretrained_cfg=pretrained_cfg,
            pretrained_cfg_overlay={**entries, **(pretrained_cfg_overlay or {})},
            feature_cfg={"out_indices": config.feature_maps, "feature_cls": "getter"},
            pretrained_filter_fn=convert_pretrained,
            **kwargs,
        )
        cfg = model.pretrained_cfg
        cfg.pop("state_dict", None)
        cfg["input_size"] = (kwargs.get("in_chans", cfg["input_size"][0]), *cfg["input_size"][1:])
        cfg[CFG_KEY] = record_options(config)
        return model

    def _cfg_entries(self, name: str, config: NetworkConfig, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of timm's configuration that the options determine. The mean and std may be `given`."""
        registered = get_pretrained_cfg(name)
        assert registered is not None
        channels, height, width = given.get("input_size", registered.input_size)
        entries = self.network.cfg_entries(config, (height, width))
        if channels != 3:  # timm adapts weights of three channels, and the given ones have others
            entries["first_conv"] = None
        return {key: value for key, value in entries.items() if key not in ("mean", "std") or key not in given}


def _name_with_tag(name: str, pretrained: bool, pretrained_cfg: Any) -> str:
    """The name of the weights that are asked for. Without a tag, the first that ship for the architecture."""
    if isinstance(pretrained_cfg, str):
        return f"{name}.{pretrained_cfg}"
    known = weights_of(name)
    return known[0].name if pretrained and pretrained_cfg is None and known else name


def _cfg_of(weights: ShippedWeights) -> dict[str, Any]:
    """The entries of timm's configuration that the catalog determines."""
    return {
        "file": str(weights.path),
        "input_size": (3, weights.image_size, weights.image_size),
        "num_classes": len(weights.classes),
        "label_names": weights.classes,
        "mean": weights.mean,
        "std": weights.std,
        "crop_pct": weights.crop,
        "interpolation": weights.interpolation,
        "license": weights.license,
        "description": weights.images,
    }


def _check_out_indices(name: str, config: NetworkConfig, indices: int | Sequence[int] | None) -> None:
    """Raise a ValueError that says which feature maps there are; timm's error is an AssertionError without words."""
    count = len(config.strides)
    known = indices is None or (
        indices <= count if isinstance(indices, int) else all(-count <= index < count for index in indices)
    )
    if known:
        return
    pooled = isinstance(config, HierarchyConfig) and len(replace(config, pyramid=True).strides) > count
    advice = "pass pyramid=True for maps up to stride 32, or " if pooled else ""
    strides = ", ".join(map(str, config.strides))
    raise ValueError(
        f"{name} has {count} feature maps, of strides {strides}, got out_indices {indices}; {advice}choose fewer maps "
        f"(in segmentation_models_pytorch with encoder_depth={min(count + 1, 5)})"
    )


def default_cfg(size: int = 224, **entries: Any) -> dict[str, Any]:
    """Return timm's configuration of a network without pretrained weights."""
    return {
        "num_classes": 1000,
        "input_size": (3, size, size),
        "crop_pct": 1.0 if size < 200 else 0.9,  # small images have nothing to spare; lite's disk removes the corners
        "interpolation": "bicubic",
        "fixed_input_size": False,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "classifier": "head",
        "license": "apache-2.0",
        **entries,
    }
