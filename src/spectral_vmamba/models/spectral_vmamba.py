"""Spectral VMamba: RFN → STS → stages of S6 blocks → head, under timm's contract."""

import torch
from jaxtyping import Float
from timm.layers.drop import DropPath
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.layers import Block, Downsample, RadiusEmbedding, S6Mixer
from spectral_vmamba.models.config import SpectralConfig
from spectral_vmamba.models.embedding import SpectralEmbedding, Tokens
from spectral_vmamba.ops.traversal import Traversal


class SpectralVMamba(nn.Module):
    """A hierarchical backbone whose answer does not change when the picture is turned by quarter turns.

    Takes float images (b, in_chans, H, W) of any size; `architecture` are the fields of `SpectralConfig`.
    `img_size` is there for timm's sake and fixes nothing.
    """

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
        super().__init__()
        self.config = config = SpectralConfig.from_keywords(**architecture)
        self.grad_checkpointing = False
        self.embedding = SpectralEmbedding(config, in_chans)
        first, channels = config.widths[0], self.embedding.channels
        self.project = nn.Identity() if channels == first else nn.Linear(channels, first)
        self.radius = RadiusEmbedding(first) if config.radius_embedding else None
        self.stages = nn.ModuleList()
        rates = torch.linspace(0, drop_path_rate, sum(config.depths), device="cpu").split(config.depths)
        for i, width in enumerate(config.widths):
            downsample = Downsample(config.widths[i - 1], width) if i else None
            self.stages.append(Stage(config, width, rates[i].tolist(), downsample))
        self.feature_info = [
            {"num_chs": width, "reduction": config.patch_size * 2**i, "module": f"stages.{i}"}
            for i, width in enumerate(config.widths)
        ]
        self.num_features = self.head_hidden_size = config.widths[-1]
        self.norm = nn.LayerNorm(self.num_features)
        self.head_drop = nn.Dropout(drop_rate)
        self.reset_classifier(num_classes, global_pool)
        for module in (self.project, self.stages):
            module.apply(_init_linear)

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tensor:
        tokens = self._normalised(self._stages(images)[-1])
        # A pooled answer needs no turning back, and is the same bits for every turn without it.
        return self.forward_head(tokens.x if self.global_pool else tokens.in_image_order())

    def _stages(self, images: Tensor, count: int | None = None) -> list[Tokens]:
        """RFN and STS, then the tokens after each of the first `count` stages."""
        tokens, traversal, frame = self.embedding(images)
        x = self.project(tokens)
        if self.radius is not None:
            x = x + self.radius(traversal.grid)
        after = []
        for stage in self.stages[:count]:
            x, traversal = stage(x, traversal, self.grad_checkpointing)
            after.append(Tokens(x, traversal, frame))
        return after

    def forward_head(self, x: Float[Tensor, "b l c"], pre_logits: bool = False) -> Tensor:
        if self.global_pool == "avg":
            x = x.mean(1)
        elif self.global_pool == "max":
            x = x.amax(1)
        x = self.head_drop(x)
        return x if pre_logits else self.head(x)

    def forward_features(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b l c"]:
        """The last stage's tokens, normalised, in raster order of the given images."""
        return self._normalised(self._stages(images)[-1]).in_image_order()

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | list[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ):
        """Feature maps (b, c, h, w) of the chosen stages, turning with the images. `norm` applies to the last stage."""
        if output_fmt != "NCHW":
            raise ValueError(f"expected output_fmt 'NCHW', got {output_fmt!r}")
        wanted, last = feature_take_indices(len(self.stages), indices)
        stages = self._stages(x, last + 1 if stop_early else None)
        finals = {len(self.stages) - 1} if norm else set()
        maps = [(self._normalised(stages[i]) if i in finals else stages[i]).maps() for i in wanted]
        if intermediates_only:
            return maps
        whole = len(stages) == len(self.stages)
        return (self._normalised(stages[-1]) if whole else stages[-1]).in_image_order(), maps

    def forward_traversals(self, images: Float[Tensor, "b rgb H W"]) -> tuple[Tensor, list[Traversal]]:
        """The logits, and the visiting orders of every stage on the grid of the given images."""
        stages = self._stages(images)
        return self.forward_head(self.norm(stages[-1].x)), [tokens.image_traversal() for tokens in stages]

    def _normalised(self, tokens: Tokens) -> Tokens:
        return tokens._replace(x=self.norm(tokens.x))

    # -- the rest of timm's contract ------------------------------------------------------------------------------

    def get_classifier(self) -> nn.Module:
        return self.head

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        if global_pool is not None:
            if global_pool not in ("avg", "max", ""):
                raise ValueError(f"expected global_pool 'avg', 'max' or '' for none, got {global_pool!r}")
            self.global_pool = global_pool
        self.num_classes = num_classes
        self.head = nn.Linear(self.num_features, num_classes) if num_classes > 0 else nn.Identity()
        _init_linear(self.head)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        self.grad_checkpointing = enable

    def no_weight_decay(self) -> set[str]:
        undecayed = ("A_log", ".D", "dt_bias", "radius.table")
        return {name for name, _ in self.named_parameters() if name.endswith(undecayed)}

    def group_matcher(self, coarse: bool = False) -> dict:
        return {
            "stem": r"^(?:embedding|project|radius)",
            "blocks": r"^stages\.(\d+)"
            if coarse
            else [
                (r"^stages\.(\d+)\.downsample", (0,)),
                (r"^stages\.(\d+)\.blocks\.(\d+)", None),
                (r"^norm", (99999,)),
            ],
        }

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drop what the chosen feature maps do not need."""
        wanted, last = feature_take_indices(len(self.stages), indices)
        self.stages = self.stages[: last + 1]
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
        return wanted


class Stage(nn.Module):
    """Blocks on one grid, after the downsampling that leads to it."""

    def __init__(self, config: SpectralConfig, width: int, drop_paths: list[float], downsample: nn.Module | None):
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.ModuleList(
            Block(width, _mixer(config, width), config.mlp_ratio, DropPath(rate) if rate else nn.Identity())
            for rate in drop_paths
        )

    def forward(self, x: Tensor, traversal: Traversal, checkpointing: bool = False) -> tuple[Tensor, Traversal]:
        if self.downsample is not None:
            x, traversal = self.downsample(x, traversal)
        for block in self.blocks:
            x = checkpoint(block, x, traversal, use_reentrant=False) if checkpointing else block(x, traversal)
        return x, traversal


def _mixer(config: SpectralConfig, width: int) -> S6Mixer:
    return S6Mixer(
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


def _init_linear(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
