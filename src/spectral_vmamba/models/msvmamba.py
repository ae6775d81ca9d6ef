"""MSVMamba: a hierarchy that scans the full map once and a map of half the sides three times."""

from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from timm.layers.drop import DropPath
from torch import Tensor, nn

from spectral_vmamba.layers.multi_scale import MultiScaleBlock, MultiScaleMixer, PatchMerging
from spectral_vmamba.layers.stems import ChannelNorm, missing
from spectral_vmamba.models.backbone import Backbone, build_stages
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.models.conversion import Rule, read_foreign, renamed, reshaped
from spectral_vmamba.models.spectral_config import check_stages
from spectral_vmamba.models.tokenizer import PatternTokenizer
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class MSVMambaConfig:
    """Every choice of the architecture; each is also a keyword of `timm.create_model("msvmamba_…", …)`."""

    widths: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (1, 2, 9, 2)
    expand: float = 2.0
    state_size: int = 1
    backend: Backend = "auto"

    def __post_init__(self):
        check_stages(self.widths, self.depths)


class MSVMamba(Backbone):
    """`architecture` are the fields of `MSVMambaConfig`. `img_size` is there for timm's sake and fixes nothing."""

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
        self.config = config = MSVMambaConfig(**architecture)
        stem = PatchStem(in_chans, config.widths[0], self.PATCH)
        self.tokenizer = PatternTokenizer(stem, in_chans, self.PATCH, "raster")
        block = partial(_block, config)
        self.stages = build_stages(config.widths, config.depths, drop_path_rate, block, PatchMerging)
        self.finish(config.widths, self.PATCH, num_classes, global_pool, drop_rate)
        self.stages.apply(init_linear)
        read_foreign(self, convert_msvmamba)


class PatchStem(nn.Sequential):
    """One convolution that sees each patch once, then LayerNorm. Zeros fill incomplete patches on the right and below;
    upstream, which is given whole patches, has no need of them."""

    def __init__(self, in_chans: int, channels: int, patch_size: int):
        super().__init__(nn.Conv2d(in_chans, channels, patch_size, stride=patch_size), ChannelNorm(channels))
        self.patch_size = patch_size

    def forward(self, input: Float[Tensor, "b c H W"]) -> Float[Tensor, "b c2 h w"]:
        height, width = input.shape[-2:]
        return super().forward(F.pad(input, (0, missing(width, self.patch_size), 0, missing(height, self.patch_size))))


def _block(config: MSVMambaConfig, width: int, drop_path: float) -> MultiScaleBlock:
    mixer = MultiScaleMixer(width, config.expand, config.state_size, config.backend)
    return MultiScaleBlock(width, mixer, DropPath(drop_path) if drop_path else nn.Identity())


_BLOCK = r"layers\.(\d+)\.blocks\.(\d+)\."
_OURS = r"stages.\1.blocks.\2."
_RULES: list[Rule] = [
    (r"patch_embed\.0\.(.*)", r"tokenizer.stem.0.\1"),
    (r"patch_embed\.2\.(.*)", r"tokenizer.stem.1.\1"),
    (r"layers\.(\d+)\.downsample\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.{m[2]}"),
    (_BLOCK + r"norm\.(.*)", _OURS + r"mixer_norm.\3"),
    (_BLOCK + r"norm2\.(.*)", _OURS + r"ffn_norm.\3"),
    (_BLOCK + r"op\.x_proj[_.]weight", _OURS + "mixer.both_scans.x_proj"),
    (_BLOCK + r"op\.dt_projs[_.]weight", _OURS + "mixer.both_scans.dt_proj"),
    (_BLOCK + r"op\.dt_projs[_.]bias", _OURS + "mixer.both_scans.dt_bias"),
    (_BLOCK + r"op\.A_logs", _OURS + "mixer.both_scans.A_log"),
    (_BLOCK + r"op\.Ds", _OURS + "mixer.both_scans.D"),
    (_BLOCK + r"op\.((?:in_proj|out_norm|out_proj)\..*)", _OURS + r"mixer.\3"),
    (_BLOCK + r"op\.conv2d\.(.*)", _OURS + r"mixer.fine_conv.\3"),
    (_BLOCK + r"op\.conv2d_b1\.(.*)", _OURS + r"mixer.coarse_conv.\3"),
    (_BLOCK + r"op\.se\.fc\.0\.(.*)", _OURS + r"mixer.excite.squeeze.\3"),
    (_BLOCK + r"op\.se\.fc\.2\.(.*)", _OURS + r"mixer.excite.expand.\3"),
    (_BLOCK + r"convFFN\.linear1\.(.*)", _OURS + r"ffn.widen.\3"),
    (_BLOCK + r"convFFN\.dwc\.(.*)", _OURS + r"ffn.depthwise.\3"),
    (_BLOCK + r"convFFN\.linear2\.(.*)", _OURS + r"ffn.narrow.\3"),
    (r"classifier\.(norm|head)\.(.*)", r"\1.\2"),
]


def convert_msvmamba(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """A released MSVMamba checkpoint under our names; our own names pass unchanged."""
    state = _unstacked(renamed(state, _RULES))
    return reshaped(state, model, r".*\.(?:\w+_scan\.\w+|(?:in_proj|out_proj|squeeze|expand|widen|narrow)\.weight)")


def _unstacked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The two parameter sets, stacked in the first axis, apart: the coarse map's comes first."""
    result = {}
    for name, tensor in state.items():
        if ".both_scans." not in name:
            result[name] = tensor
            continue
        for scan, own in zip(("coarse_scan", "fine_scan"), tensor.chunk(2), strict=False):
            result[name.replace("both_scans", scan)] = own
    return result
