"""Vim: a row-major sequence with a class token in the middle, scanned forward and backward in every block."""

from dataclasses import dataclass

from timm.layers.weight_init import lecun_normal_
from timm.models import register_model
from torch import Tensor, nn

from spectral_vmamba.layers.directional import VimMixer
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.conversion import Rule
from spectral_vmamba.models.isotropic import IsotropicBackbone, block_rules
from spectral_vmamba.models.network_config import IsotropicConfig


@dataclass(frozen=True)
class VimConfig(IsotropicConfig):
    """All choices of the architecture. Each is also a keyword of `timm.create_model("vim_…", …)`."""


class Vim(IsotropicBackbone):
    """Takes the fields of `VimConfig` as keywords, besides timm's own. Classifies the class token by default."""

    config: VimConfig
    config_class = VimConfig
    has_class_token = True
    rotary = False
    pools = ("token", *Classifier.pools)

    def build_mixers(self) -> list[VimMixer]:
        config = self.config
        return [VimMixer(config.width, config.state_size, config.backend) for _ in range(config.depth)]

    def reset_parameters(self) -> None:
        super().reset_parameters()
        lecun_normal_(self.patch_embed.weight)
        if self.patch_embed.bias is not None:
            nn.init.zeros_(self.patch_embed.bias)

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a released Vim checkpoint with the class token in the middle."""
        return self._convert(state, _RULES)


_RULES: list[Rule] = [
    (r"layers\.(\d+)\.mixer\.A_b_log", r"blocks.\1.mixer.directions.1.s6.A_log"),
    *block_rules(r"(_b)?", lambda backward: 1 if backward else 0),
]

FAMILY = Family(
    "Vim",
    Vim,
    {
        "vim_nano": {"width": 160, "depth": 6, "state_size": 1, "patch_size": 4, "img_size": 32},
        "vim_tiny": {"width": 192, "depth": 24},
        "vim_small": {"width": 384, "depth": 24, "drop_path_rate": 0.05},
    },
)

default_cfgs = FAMILY.default_cfgs(
    "Vision Mamba: Efficient Visual Representation Learning with Bidirectional State Space Model",
    {"vim_nano": 32},
)


@register_model
def vim_nano(pretrained: bool = False, **kwargs) -> Vim:
    """About the parameters of `spectral_vmamba_nano`, and its one state per channel: for comparisons at 32 px."""
    return FAMILY.build("vim_nano", pretrained, **kwargs)


@register_model
def vim_tiny(pretrained: bool = False, **kwargs) -> Vim:
    """The paper's T, with the class token in the middle."""
    return FAMILY.build("vim_tiny", pretrained, **kwargs)


@register_model
def vim_small(pretrained: bool = False, **kwargs) -> Vim:
    """The paper's S, with the class token in the middle."""
    return FAMILY.build("vim_small", pretrained, **kwargs)
