"""LocalVim: every block scans the grid in four directions, chosen per layer among rows, columns and windows."""

from dataclasses import dataclass
from typing import Literal

from timm.models import register_model
from torch import Tensor

from spectral_vmamba.layers.directional import LocalVimMixer
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.conversion import Rule
from spectral_vmamba.models.isotropic import IsotropicBackbone, block_rules
from spectral_vmamba.models.network_config import IsotropicConfig
from spectral_vmamba.ops.orders import PATTERNS, pattern_directions

# The result of the published search, for each of 20 layers on a grid of 14 × 14.
SEARCHED_DIRECTIONS: tuple[tuple[str, ...], ...] = (
    ("h", "v_flip", "w7", "w7_flip"),
    ("h_flip", "w2_flip", "w7", "w7_flip"),
    ("h", "h_flip", "v", "w7"),
    ("h", "h_flip", "v", "v_flip"),
    ("h", "h_flip", "v", "v_flip"),
    ("h", "h_flip", "v", "v_flip"),
    ("h_flip", "v", "v_flip", "w7"),
    ("h_flip", "v", "v_flip", "w2_flip"),
    ("h", "h_flip", "v", "v_flip"),
    ("h", "h_flip", "v", "v_flip"),
    ("h", "v", "v_flip", "w2"),
    ("h", "v", "v_flip", "w2_flip"),
    ("h", "h_flip", "v_flip", "w7"),
    ("h_flip", "v", "v_flip", "w2"),
    ("h", "h_flip", "v", "v_flip"),
    ("h", "v", "w2", "w2_flip"),
    ("v", "v_flip", "w2", "w7"),
    ("h", "h_flip", "v", "w2"),
    ("h", "h_flip", "w2_flip", "w7"),
    ("v", "v_flip", "w2", "w2_flip"),
)


@dataclass(frozen=True)
class LocalVimConfig(IsotropicConfig):
    """All choices of the architecture. Each is also a keyword of `timm.create_model("local_vim_…", …)`."""

    depth: int = 20
    directions: Literal["searched", "unsearched"] | tuple[tuple[str, ...], ...] = "searched"  # one tuple per layer

    def __post_init__(self):
        super().__post_init__()
        if self.width % 4:
            raise ValueError(
                f"expected a width that is a multiple of 4, for pairs of channels per axis; got {self.width}"
            )
        for directions in self.layers:
            pattern_directions(tuple(directions))

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The directions of every layer. A shallower network takes the first layers of the searched ones."""
        if self.directions == "unsearched":
            return (PATTERNS["window"],) * self.depth
        if isinstance(self.directions, str) and self.directions != "searched":
            raise ValueError(
                f"expected directions 'searched', 'unsearched' or one tuple of directions per layer, "
                f"got {self.directions!r}"
            )
        layers = SEARCHED_DIRECTIONS[: self.depth] if self.directions == "searched" else self.directions
        if len(layers) != self.depth:
            raise ValueError(
                f"expected directions for {self.depth} layers, got {len(layers)}; 'unsearched' fits every depth"
            )
        return tuple(tuple(directions) for directions in layers)


class LocalVim(IsotropicBackbone):
    """Takes the fields of `LocalVimConfig` as keywords, besides timm's own. Classifies the mean of the tokens."""

    config: LocalVimConfig
    config_class = LocalVimConfig
    has_class_token = False
    rotary = True

    def build_mixers(self) -> list[LocalVimMixer]:
        config = self.config
        return [LocalVimMixer(config.width, names, config.state_size, config.backend) for names in config.layers]

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a released LocalVim checkpoint without class token. The tables of the rotary embedding are left out:
        they are computed here."""
        return self._convert(state, _RULES, drop=r"rope\.freqs_(?:cos|sin)")


_RULES: list[Rule] = [
    (r"layers\.(\d+)\.mixer\.attn\.norm\.(.*)", r"blocks.\1.mixer.gate.norm.\2"),
    (r"layers\.(\d+)\.mixer\.attn\.global_reduce\.(.*)", r"blocks.\1.mixer.gate.reduce.\2"),
    (r"layers\.(\d+)\.mixer\.attn\.channel_select\.(.*)", r"blocks.\1.mixer.gate.select.\2"),
    *block_rules(r"_(\d+)", int),
]

FAMILY = Family(
    "LocalVim",
    LocalVim,
    {
        "local_vim_nano": {
            "width": 144,
            "depth": 6,
            "state_size": 1,
            "patch_size": 4,
            "img_size": 32,
            "directions": "unsearched",
        },
        "local_vim_tiny": {"width": 192, "depth": 20, "directions": "searched", "drop_path_rate": 0.1},
        "local_vim_small": {"width": 384, "depth": 20, "directions": "unsearched", "drop_path_rate": 0.1},
    },
)

default_cfgs = FAMILY.default_cfgs(
    "LocalMamba: Visual State Space Model with Windowed Selective Scan", {"local_vim_nano": 32}
)


@register_model
def local_vim_nano(pretrained: bool = False, **kwargs) -> LocalVim:
    """About the parameters of `spectral_vmamba_nano`, and its one state per channel: for comparisons at 32 px."""
    return FAMILY.build("local_vim_nano", pretrained, **kwargs)


@register_model
def local_vim_tiny(pretrained: bool = False, **kwargs) -> LocalVim:
    """The paper's T, with the directions that its search found."""
    return FAMILY.build("local_vim_tiny", pretrained, **kwargs)


@register_model
def local_vim_small(pretrained: bool = False, **kwargs) -> LocalVim:
    """The paper's S. The published code defines it twice; the later definition, without search, takes effect."""
    return FAMILY.build("local_vim_small", pretrained, **kwargs)
