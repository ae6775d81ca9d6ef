"""Build the networks of a family through timm, and the default configurations that timm keeps for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg, generate_default_cfgs

from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.conversion import convert_pretrained
from spectral_vmamba.models.network_config import HierarchyConfig, NetworkConfig


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

    def default_cfgs(self, first_conv: str | None, paper_name: str, sizes: Mapping[str, int]) -> Any:
        """Return timm's default configurations of all names. `sizes` maps names to image sizes other than 224."""
        return generate_default_cfgs(
            {
                f"{name}.untrained": default_cfg(first_conv, sizes.get(name, 224), paper_name=paper_name)
                for name in self.names
            }
        )

    def config(self, name: str, **kwargs: Any) -> NetworkConfig:
        """Return the configuration of a registered architecture, changed by `kwargs`. Keywords that are no fields of
        it, such as `num_classes`, are ignored."""
        known = {field.name for field in fields(self.network.config_class)}
        keywords = {**self.architectures[name], **kwargs}
        return self.network.config_class.from_keywords(
            **{key: value for key, value in keywords.items() if key in known}
        )

    def build(self, name: str, pretrained: bool, **kwargs: Any) -> Any:
        """Build a registered network, changed by `kwargs`."""
        if kwargs.get("features_only"):
            kwargs = {**self.config(name, **kwargs).features_only_options, **kwargs}
            _check_out_indices(name, self.config(name, **kwargs), kwargs.get("out_indices"))
        return build_model_with_cfg(
            self.network,
            name,
            pretrained,
            feature_cfg={"out_indices": self.config(name, **kwargs).feature_maps, "feature_cls": "getter"},
            pretrained_filter_fn=convert_pretrained,
            **{**self.architectures[name], **kwargs},
        )


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


def default_cfg(first_conv: str | None, size: int = 224, **overrides: Any) -> dict[str, Any]:
    """Return timm's configuration of a network without pretrained weights.

    `first_conv` is the module that sees the pixels: timm adapts its weights to other numbers of channels.
    """
    return {
        "first_conv": first_conv,
        "num_classes": 1000,
        "input_size": (3, size, size),
        "pool_size": None,
        "crop_pct": 1.0 if size < 200 else 0.9,  # small images have nothing to spare; lite's disk removes the corners
        "interpolation": "bicubic",
        "fixed_input_size": False,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "classifier": "head",
        "license": "apache-2.0",
        **overrides,
    }
