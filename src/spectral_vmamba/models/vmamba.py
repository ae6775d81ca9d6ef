"""VMamba (v2, "noz"): the network that Spectral VMamba starts from, scanning rows and columns, both ways."""

from dataclasses import dataclass
from functools import partial

from timm.layers.drop import DropPath
from torch import Tensor, nn

from spectral_vmamba.layers import Block, ConvDownsample, ConvStem, S6Mixer
from spectral_vmamba.models.backbone import Backbone, build_stages
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.models.conversion import Rule, read_foreign, renamed, reshaped
from spectral_vmamba.models.spectral_config import check_stages
from spectral_vmamba.models.tokenizer import PatternTokenizer
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import Pattern, pattern_orders
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class VMambaConfig:
    """Every choice of the architecture; each is also a keyword of `timm.create_model("vmamba_…", …)`."""

    widths: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (2, 2, 8, 2)
    expand: float = 1.0
    state_size: int = 1
    mlp_ratio: float = 4.0
    orders: Pattern = "cross"  # a pattern's name, a tuple of directions, or a function from a Grid to (k, l) orders
    backend: Backend = "auto"

    def __post_init__(self):
        check_stages(self.widths, self.depths)

    @property
    def paths(self) -> int:
        return len(pattern_orders(self.orders, Grid(2, 2)))


class VMamba(Backbone):
    """`architecture` are the fields of `VMambaConfig`. `img_size` is there for timm's sake and fixes nothing."""

    PATCH = 4

    def __init__(
        self,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str = "avg",
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
        img_size: int | tuple[int, int] | None = None,
        **architecture,
    ):
        super().__init__(in_chans)
        self.config = config = VMambaConfig(**architecture)
        stem = ConvStem(in_chans, config.widths[0], self.PATCH)
        self.tokenizer = PatternTokenizer(stem, in_chans, self.PATCH, config.orders)
        block = partial(_block, config)
        self.stages = build_stages(config.widths, config.depths, drop_path_rate, block, ConvDownsample)
        self.finish(config.widths, self.PATCH, num_classes, global_pool, drop_rate)
        self.stages.apply(init_linear)
        read_foreign(self, convert_vmamba)


def _block(config: VMambaConfig, width: int, drop_path: float) -> Block:
    mixer = S6Mixer(
        width,
        config.paths,
        config.expand,
        config.state_size,
        local_mixing="depthwise",
        backend=config.backend,
    )
    return Block(width, mixer, config.mlp_ratio, DropPath(drop_path) if drop_path else nn.Identity())


_BLOCK = r"layers\.(\d+)\.blocks\.(\d+)\."
_OURS = r"stages.\1.blocks.\2."
_RULES: list[Rule] = [
    (r"patch_embed\.0\.(.*)", r"tokenizer.stem.0.\1"),
    (r"patch_embed\.2\.(.*)", r"tokenizer.stem.1.\1"),
    (r"patch_embed\.5\.(.*)", r"tokenizer.stem.3.\1"),
    (r"patch_embed\.7\.(.*)", r"tokenizer.stem.4.\1"),
    (r"layers\.(\d+)\.downsample\.1\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.conv.{m[2]}"),
    (r"layers\.(\d+)\.downsample\.3\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.norm.{m[2]}"),
    (_BLOCK + r"(?:norm|ln_1)\.(.*)", _OURS + r"mixer_norm.\3"),
    (_BLOCK + r"norm2\.(.*)", _OURS + r"mlp_norm.\3"),
    (_BLOCK + r"mlp\.fc1\.(.*)", _OURS + r"mlp.0.\3"),
    (_BLOCK + r"mlp\.fc2\.(.*)", _OURS + r"mlp.2.\3"),
    (_BLOCK + r"(?:op|self_attention)\.conv2d\.weight", _OURS + "mixer.local_mixing.conv.weight"),
    (_BLOCK + r"(?:op|self_attention)\.x_proj[_.]weight", _OURS + "mixer.s6.x_proj"),
    (_BLOCK + r"(?:op|self_attention)\.dt_projs[_.]weight", _OURS + "mixer.s6.dt_proj"),
    (_BLOCK + r"(?:op|self_attention)\.dt_projs[_.]bias", _OURS + "mixer.s6.dt_bias"),
    (_BLOCK + r"(?:op|self_attention)\.A_logs", _OURS + "mixer.s6.A_log"),
    (_BLOCK + r"(?:op|self_attention)\.Ds", _OURS + "mixer.s6.D"),
    (_BLOCK + r"(?:op|self_attention)\.((?:in_proj|out_norm|out_proj)\..*)", _OURS + r"mixer.\3"),
    (r"classifier\.(norm|head)\.(.*)", r"\1.\2"),
]


def convert_vmamba(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A released VMamba checkpoint under our names: those of the training code and of the one-file version (whose
    parameter sets are stacked in fewer axes), with linear layers or 1×1 convolutions. Our own names pass unchanged."""
    return reshaped(renamed(state, _RULES), model, r".*\.(?:s6\.\w+|(?:in_proj|out_proj|mlp\.\d)\.weight)")
