"""VMamba (v2, "noz"), the network that Spectral VMamba is based on: scans rows and columns, in both directions."""

from dataclasses import dataclass

from timm.models import register_model
from torch import Tensor, nn

from spectral_vmamba.layers import Block, ConvDownsample, ConvStem, S6Mixer
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.backbone import Backbone
from spectral_vmamba.models.conversion import Rule, rename_keys, reshape_tensors
from spectral_vmamba.models.network_config import HierarchyConfig
from spectral_vmamba.models.tokenizer import PatternTokenizer
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import Pattern, pattern_orders
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class VMambaConfig(HierarchyConfig):
    """All choices of the architecture. Each is also a keyword of `timm.create_model("vmamba_…", …)`."""

    widths: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (2, 2, 8, 2)
    expand: float = 1.0
    state_size: int = 1
    mlp_ratio: float = 4.0
    orders: Pattern = "cross"  # a pattern's name, a tuple of directions, or a function from a Grid to (k, l) orders
    backend: Backend = "auto"

    @property
    def paths(self) -> int:
        """Number of visiting orders."""
        return len(pattern_orders(self.orders, Grid(2, 2)))


class VMamba(Backbone):
    """Takes the fields of `VMambaConfig` as keywords, besides timm's own."""

    config: VMambaConfig
    config_class = VMambaConfig

    def build_input_layers(self) -> None:
        config = self.config
        stem = ConvStem(self.in_chans, config.widths[0], config.patch_size)
        self.tokenizer = PatternTokenizer(config, stem, self.in_chans, config.patch_size, config.orders)

    def build_downsample(self, width: int, new_width: int, halve: bool) -> ConvDownsample:
        return ConvDownsample(width, new_width, halve)

    def build_block(self, width: int, drop_path: nn.Module) -> Block:
        config = self.config
        mixer = S6Mixer(
            width, config.paths, config.expand, config.state_size, local_mixing="depthwise", backend=config.backend
        )
        return Block(width, mixer, config.mlp_ratio, drop_path)

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a released VMamba checkpoint: one of the training code, or one of the one-file version, which stacks
        the parameter sets in fewer axes. Both come with linear layers or 1×1 convolutions."""
        keys = r".*\.(?:s6\.\w+|(?:in_proj|out_proj|mlp\.\d)\.weight)"
        return reshape_tensors(rename_keys(state, _RULES), self, keys)


_RELEASED = r"layers\.(\d+)\.blocks\.(\d+)\."
_MIXER = _RELEASED + r"(?:op|self_attention)\."
_BLOCK = r"stages.\1.blocks.\2."
_RULES: list[Rule] = [
    (r"patch_embed\.0\.(.*)", r"tokenizer.stem.0.\1"),
    (r"patch_embed\.2\.(.*)", r"tokenizer.stem.1.\1"),
    (r"patch_embed\.5\.(.*)", r"tokenizer.stem.3.\1"),
    (r"patch_embed\.7\.(.*)", r"tokenizer.stem.4.\1"),
    (r"layers\.(\d+)\.downsample\.1\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.conv.{m[2]}"),
    (r"layers\.(\d+)\.downsample\.3\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.norm.{m[2]}"),
    (_RELEASED + r"(?:norm|ln_1)\.(.*)", _BLOCK + r"mixer_norm.\3"),
    (_RELEASED + r"norm2\.(.*)", _BLOCK + r"mlp_norm.\3"),
    (_RELEASED + r"mlp\.fc1\.(.*)", _BLOCK + r"mlp.0.\3"),
    (_RELEASED + r"mlp\.fc2\.(.*)", _BLOCK + r"mlp.2.\3"),
    (_MIXER + r"conv2d\.weight", _BLOCK + "mixer.local_mixing.conv.weight"),
    (_MIXER + r"x_proj[_.]weight", _BLOCK + "mixer.s6.x_proj"),
    (_MIXER + r"dt_projs[_.]weight", _BLOCK + "mixer.s6.dt_proj"),
    (_MIXER + r"dt_projs[_.]bias", _BLOCK + "mixer.s6.dt_bias"),
    (_MIXER + r"A_logs", _BLOCK + "mixer.s6.A_log"),
    (_MIXER + r"Ds", _BLOCK + "mixer.s6.D"),
    (_MIXER + r"((?:in_proj|out_norm|out_proj)\..*)", _BLOCK + r"mixer.\3"),
    (r"classifier\.(norm|head)\.(.*)", r"\1.\2"),
]

_WIDTHS = (96, 192, 384, 768)
FAMILY = Family(
    "VMamba",
    VMamba,
    {
        "vmamba_nano": {"widths": (48, 96, 192), "depths": (2, 3, 1), "expand": 1.5},
        "vmamba_tiny": {"widths": _WIDTHS, "depths": (2, 2, 8, 2), "expand": 1.0, "drop_path_rate": 0.2},
        "vmamba_small": {"widths": _WIDTHS, "depths": (2, 2, 15, 2), "expand": 2.0, "drop_path_rate": 0.3},
        "vmamba_base": {
            "widths": (128, 256, 512, 1024),
            "depths": (2, 2, 15, 2),
            "expand": 2.0,
            "drop_path_rate": 0.6,
        },
    },
)

default_cfgs = FAMILY.default_cfgs("VMamba: Visual State Space Model", {"vmamba_nano": 32})


@register_model
def vmamba_nano(pretrained: bool = False, **kwargs) -> VMamba:
    """The depths and about the parameters of `spectral_vmamba_nano`, for 32 to 64 px: for comparisons on a CPU."""
    return FAMILY.build("vmamba_nano", pretrained, **kwargs)


@register_model
def vmamba_tiny(pretrained: bool = False, **kwargs) -> VMamba:
    """The paper's T (v05_noz, s1l8)."""
    return FAMILY.build("vmamba_tiny", pretrained, **kwargs)


@register_model
def vmamba_small(pretrained: bool = False, **kwargs) -> VMamba:
    """The paper's S (v05_noz, s2l15). With `drop_path_rate=0.6` it is probably the network behind the row "VMamba-B" of
    the spectral paper."""
    return FAMILY.build("vmamba_small", pretrained, **kwargs)


@register_model
def vmamba_base(pretrained: bool = False, **kwargs) -> VMamba:
    """The paper's B (v05_noz, s2l15)."""
    return FAMILY.build("vmamba_base", pretrained, **kwargs)
