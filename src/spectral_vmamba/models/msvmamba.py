"""MSVMamba: a hierarchy that scans the full map once and a map of half the height and width three times."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from timm.models import register_model
from torch import Tensor, nn

from spectral_vmamba.layers.multi_scale import MultiScaleBlock, MultiScaleMixer, PatchMerging
from spectral_vmamba.layers.stems import ChannelNorm, padding_for
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models.backbone import Backbone
from spectral_vmamba.models.conversion import Rule, rename_keys, reshape_tensors
from spectral_vmamba.models.network_config import HierarchyConfig
from spectral_vmamba.models.tokenizer import PatternTokenizer
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class MSVMambaConfig(HierarchyConfig):
    """All choices of the architecture. Each is also a keyword of `timm.create_model("msvmamba_…", …)`."""

    widths: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (1, 2, 9, 2)
    expand: float = 2.0
    state_size: int = 1
    backend: Backend = "auto"


class MSVMamba(Backbone):
    """Takes the fields of `MSVMambaConfig` as keywords, besides timm's own."""

    config: MSVMambaConfig
    config_class = MSVMambaConfig

    def build_input_layers(self) -> None:
        config = self.config
        stem = PatchStem(self.in_chans, config.widths[0], config.patch_size)
        self.tokenizer = PatternTokenizer(config, stem, self.in_chans, config.patch_size, "raster")

    def build_downsample(self, width: int, new_width: int, halve: bool) -> PatchMerging:
        return PatchMerging(width, new_width, halve)

    def build_block(self, width: int, drop_path: nn.Module) -> MultiScaleBlock:
        mixer = MultiScaleMixer(width, self.config.expand, self.config.state_size, self.config.backend)
        return MultiScaleBlock(width, mixer, drop_path)

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a released MSVMamba checkpoint."""
        keys = r".*\.(?:\w+_scan\.\w+|(?:in_proj|out_proj|squeeze|expand|widen|narrow)\.weight)"
        return reshape_tensors(_split_scans(rename_keys(state, _RULES)), self, keys)


class PatchStem(nn.Sequential):
    """A convolution that sees each patch once, then LayerNorm. Incomplete patches are padded with zeros on the right
    and below; the published code takes only whole patches."""

    def __init__(self, in_chans: int, channels: int, patch_size: int):
        super().__init__(nn.Conv2d(in_chans, channels, patch_size, stride=patch_size), ChannelNorm(channels))
        self.patch_size = patch_size

    def forward(self, input: Float[Tensor, "b c H W"]) -> Float[Tensor, "b c2 h w"]:
        height, width = input.shape[-2:]
        right, below = padding_for(width, self.patch_size), padding_for(height, self.patch_size)
        return super().forward(F.pad(input, (0, right, 0, below)))


_RELEASED = r"layers\.(\d+)\.blocks\.(\d+)\."
_BLOCK = r"stages.\1.blocks.\2."
_RULES: list[Rule] = [
    (r"patch_embed\.0\.(.*)", r"tokenizer.stem.0.\1"),
    (r"patch_embed\.2\.(.*)", r"tokenizer.stem.1.\1"),
    (r"layers\.(\d+)\.downsample\.(.*)", lambda m: f"stages.{int(m[1]) + 1}.downsample.{m[2]}"),
    (_RELEASED + r"norm\.(.*)", _BLOCK + r"mixer_norm.\3"),
    (_RELEASED + r"norm2\.(.*)", _BLOCK + r"ffn_norm.\3"),
    (_RELEASED + r"op\.x_proj[_.]weight", _BLOCK + "mixer.both_scans.x_proj"),
    (_RELEASED + r"op\.dt_projs[_.]weight", _BLOCK + "mixer.both_scans.dt_proj"),
    (_RELEASED + r"op\.dt_projs[_.]bias", _BLOCK + "mixer.both_scans.dt_bias"),
    (_RELEASED + r"op\.A_logs", _BLOCK + "mixer.both_scans.A_log"),
    (_RELEASED + r"op\.Ds", _BLOCK + "mixer.both_scans.D"),
    (_RELEASED + r"op\.((?:in_proj|out_norm|out_proj)\..*)", _BLOCK + r"mixer.\3"),
    (_RELEASED + r"op\.conv2d\.(.*)", _BLOCK + r"mixer.fine_conv.\3"),
    (_RELEASED + r"op\.conv2d_b1\.(.*)", _BLOCK + r"mixer.coarse_conv.\3"),
    (_RELEASED + r"op\.se\.fc\.0\.(.*)", _BLOCK + r"mixer.excite.squeeze.\3"),
    (_RELEASED + r"op\.se\.fc\.2\.(.*)", _BLOCK + r"mixer.excite.expand.\3"),
    (_RELEASED + r"convFFN\.linear1\.(.*)", _BLOCK + r"ffn.widen.\3"),
    (_RELEASED + r"convFFN\.dwc\.(.*)", _BLOCK + r"ffn.depthwise.\3"),
    (_RELEASED + r"convFFN\.linear2\.(.*)", _BLOCK + r"ffn.narrow.\3"),
    (r"classifier\.(norm|head)\.(.*)", r"\1.\2"),
]


def _split_scans(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Split the two parameter sets that released checkpoints stack in the first axis; the coarse map's is first."""
    split = {}
    for key, tensor in state.items():
        if ".both_scans." not in key:
            split[key] = tensor
            continue
        for scan, part in zip(("coarse_scan", "fine_scan"), tensor.chunk(2), strict=False):
            split[key.replace("both_scans", scan)] = part
    return split


FAMILY = Family(
    "MSVMamba",
    MSVMamba,
    {
        "msvmamba_pico": {"widths": (48, 104, 192), "depths": (2, 3, 1)},
        "msvmamba_nano": {"widths": (48, 96, 192, 384), "depths": (1, 2, 5, 2), "drop_path_rate": 0.2},
        "msvmamba_micro": {"widths": (64, 128, 256, 512), "depths": (1, 2, 5, 2), "drop_path_rate": 0.2},
        "msvmamba_tiny": {"widths": (96, 192, 384, 768), "depths": (1, 2, 9, 2), "drop_path_rate": 0.2},
    },
)

default_cfgs = FAMILY.default_cfgs(
    "Multi-Scale VMamba: Hierarchy in Hierarchy Visual State Space Model", {"msvmamba_pico": 32}
)


@register_model
def msvmamba_pico(pretrained: bool = False, **kwargs) -> MSVMamba:
    """The depths and about the parameters of `spectral_vmamba_nano`, for 32 to 64 px: for comparisons on a CPU.

    Called pico because the paper has a nano.
    """
    return FAMILY.build("msvmamba_pico", pretrained, **kwargs)


@register_model
def msvmamba_nano(pretrained: bool = False, **kwargs) -> MSVMamba:
    """The paper's N."""
    return FAMILY.build("msvmamba_nano", pretrained, **kwargs)


@register_model
def msvmamba_micro(pretrained: bool = False, **kwargs) -> MSVMamba:
    """The paper's M."""
    return FAMILY.build("msvmamba_micro", pretrained, **kwargs)


@register_model
def msvmamba_tiny(pretrained: bool = False, **kwargs) -> MSVMamba:
    """The paper's T."""
    return FAMILY.build("msvmamba_tiny", pretrained, **kwargs)
