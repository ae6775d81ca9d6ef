"""Vim: one row-major sequence with a class token in the middle, read forwards and backwards in every block."""

from dataclasses import dataclass

from timm.layers.weight_init import lecun_normal_
from torch import Tensor, nn

from spectral_vmamba.layers.directional import VimMixer
from spectral_vmamba.models.conversion import Rule, read_foreign
from spectral_vmamba.models.isotropic import IsotropicBackbone, IsotropicConfig, convert_isotropic, released_rules


@dataclass(frozen=True)
class VimConfig(IsotropicConfig):
    """Every choice of the architecture; each is also a keyword of `timm.create_model("vim_…", …)`."""


class Vim(IsotropicBackbone):
    """`architecture` are the fields of `VimConfig`."""

    config: VimConfig

    def __init__(
        self,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str = "token",
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        **architecture,
    ):
        config = VimConfig(**architecture)
        mixers = [VimMixer(config.width, config.state_size, config.backend) for _ in range(config.depth)]
        super().__init__(
            config,
            mixers,
            class_token=True,
            rotary=False,
            num_classes=num_classes,
            in_chans=in_chans,
            global_pool=global_pool,
            drop_rate=drop_rate,
            drop_path_rate=drop_path_rate,
        )
        lecun_normal_(self.patch_embed.weight)
        if self.patch_embed.bias is not None:
            nn.init.zeros_(self.patch_embed.bias)
        read_foreign(self, convert_vim)


_RULES: list[Rule] = [
    (r"layers\.(\d+)\.mixer\.A_b_log", r"blocks.\1.mixer.directions.1.s6.A_log"),
    *released_rules(r"(_b)?", lambda mark: 1 if mark else 0),
]


def convert_vim(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A released Vim checkpoint (with the class token in the middle) under our names, which pass unchanged."""
    return convert_isotropic(state, model, _RULES)
