"""LocalVim: four readings of the grid in every block, by rows, columns or windows, chosen layer by layer."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from spectral_vmamba.layers.directional import LocalVimMixer
from spectral_vmamba.models.conversion import Rule, read_foreign
from spectral_vmamba.models.isotropic import IsotropicBackbone, IsotropicConfig, convert_isotropic, released_rules
from spectral_vmamba.ops.orders import PATTERNS, directions_of

# What the published search kept for each of 20 layers on a grid of 14 × 14.
SEARCHED: tuple[tuple[str, ...], ...] = (
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
    """Every choice of the architecture; each is also a keyword of `timm.create_model("local_vim_…", …)`."""

    depth: int = 20
    directions: Literal["searched", "unsearched"] | tuple[tuple[str, ...], ...] = "searched"  # one tuple per layer

    def __post_init__(self):
        super().__post_init__()
        if self.width % 4:
            raise ValueError(
                f"expected a width that is a multiple of 4, for pairs of channels per axis; got {self.width}"
            )
        for directions in self.layers:
            directions_of(tuple(directions))

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
        layers = SEARCHED[: self.depth] if self.directions == "searched" else self.directions
        if len(layers) != self.depth:
            raise ValueError(
                f"expected directions for {self.depth} layers, got {len(layers)}; 'unsearched' fits every depth"
            )
        return tuple(tuple(directions) for directions in layers)


class LocalVim(IsotropicBackbone):
    """`architecture` are the fields of `LocalVimConfig`. Without class token: the tokens' mean is classified."""

    config: LocalVimConfig

    def __init__(
        self,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str = "avg",
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        **architecture,
    ):
        config = LocalVimConfig(**architecture)
        mixers = [LocalVimMixer(config.width, names, config.state_size, config.backend) for names in config.layers]
        super().__init__(
            config,
            mixers,
            class_token=False,
            rotary=True,
            num_classes=num_classes,
            in_chans=in_chans,
            global_pool=global_pool,
            drop_rate=drop_rate,
            drop_path_rate=drop_path_rate,
        )
        read_foreign(self, convert_local_vim)


_RULES: list[Rule] = [
    (r"layers\.(\d+)\.mixer\.attn\.norm\.(.*)", r"blocks.\1.mixer.gate.norm.\2"),
    (r"layers\.(\d+)\.mixer\.attn\.global_reduce\.(.*)", r"blocks.\1.mixer.gate.reduce.\2"),
    (r"layers\.(\d+)\.mixer\.attn\.channel_select\.(.*)", r"blocks.\1.mixer.gate.select.\2"),
    *released_rules(r"_(\d+)", int),
]


def convert_local_vim(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A released LocalVim checkpoint (without class token) under our names, which pass unchanged. The tables of the
    rotary embedding, which are computed here, are left out."""
    return convert_isotropic(state, model, _RULES, dropped=r"rope\.freqs_(?:cos|sin)")
