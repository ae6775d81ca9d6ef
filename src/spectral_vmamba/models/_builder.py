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
        """Return timm's default configurations of all names. `sizes` maps names to image sizes other than 224."""
        cfgs = {}
        for name in self.names:
            size = sizes.get(name, 224)
            entries = self.network.cfg_entries(self.config(name), (size, size))
            cfgs[f"{name}.untrained"] = default_cfg(size, paper_name=paper_name, **entries)
        return generate_default_cfgs(cfgs)

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

        Options that are recorded in `pretrained_cfg` (see `recorded_options`) apply unless `kwargs` has others.
        """
        pretrained_cfg, recorded = read_options(pretrained_cfg, self.network.config_class)
        options = {**recorded, **kwargs}
        if kwargs.get("features_only"):
            options = {**recorded, **self.config(name, **options).features_only_options, **kwargs}
        config = self.config(name, **options)
        _check_out_indices(name, config, kwargs.get("out_indices"))
        if pretrained:
            warn_of_other_options(name, recorded, config)
            warn_of_unknown_options(name, pretrained_cfg, {**recorded, **kwargs}, config)
        kwargs = {**self.architectures[name], **options}
        entries = self._cfg_entries(name, config, pretrained_cfg if isinstance(pretrained_cfg, dict) else {})
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
