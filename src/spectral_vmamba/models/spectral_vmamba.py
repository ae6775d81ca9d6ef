"""Spectral VMamba: RFN → STS → stages of S6 blocks → head, under timm's contract."""

from functools import partial

from jaxtyping import Float
from timm.layers.drop import DropPath
from torch import Tensor, nn

from spectral_vmamba.layers import Block, Downsample, RadiusEmbedding, S6Mixer
from spectral_vmamba.models.backbone import Backbone, build_stages
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.tokens import Tokens


class SpectralVMamba(Backbone):
    """A hierarchical backbone whose answer does not change when the image is turned by quarter turns.

    Takes float images (b, in_chans, H, W) of one patch or more; `architecture` are the fields of `SpectralConfig`.
    `img_size` is there for timm's sake and fixes nothing.
    """

    tokenizer: SpectralTokenizer
    undecayed = ("radius.table",)
    stem_pattern = r"^(?:tokenizer|project|radius)"

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
        self.config = config = SpectralConfig.from_keywords(**architecture)
        self.tokenizer = SpectralTokenizer(config, in_chans)
        first, channels = config.widths[0], self.tokenizer.channels
        self.project = nn.Identity() if channels == first else nn.Linear(channels, first)
        self.radius = RadiusEmbedding(first) if config.radius_embedding else None
        block = partial(_block, config)
        self.stages = build_stages(config.widths, config.depths, drop_path_rate, block, Downsample)
        self.finish(config.widths, config.patch_size, num_classes, global_pool, drop_rate)
        for module in (self.project, self.stages):
            module.apply(init_linear)

    def embed(self, images: Float[Tensor, "b rgb H W"] | Tokens) -> Tokens:
        """RFN and STS, unless what these give is itself given: all methods take it in place of images."""
        tokens, traversal, frame = images if isinstance(images, Tokens) else self.tokenizer(images)
        x = self.project(tokens)
        if self.radius is not None:
            x = x + self.radius(traversal.grid)
        return Tokens(x, traversal, frame)


def _block(config: SpectralConfig, width: int, drop_path: float) -> Block:
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
    return Block(width, mixer, config.mlp_ratio, DropPath(drop_path) if drop_path else nn.Identity())
