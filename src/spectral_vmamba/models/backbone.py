"""What all our networks share: timm's contract over "embed, then stages of blocks, then norm, pool and head"."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.ops.traversal import Traversal


class Stage(nn.Module):
    """Blocks on one grid, after the downsampling that leads to it."""

    def __init__(self, blocks: Sequence[nn.Module], downsample: nn.Module | None):
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, traversal: Traversal, checkpointing: bool = False) -> tuple[Tensor, Traversal]:
        if self.downsample is not None:
            x, traversal = self.downsample(x, traversal)
        for block in self.blocks:
            x = checkpoint(block, x, traversal, use_reentrant=False) if checkpointing else block(x, traversal)
        return x, traversal


def build_stages(
    widths: Sequence[int],
    depths: Sequence[int],
    drop_path_rate: float,
    block: Callable[[int, float], nn.Module],
    downsample: Callable[[int, int], nn.Module],
) -> nn.ModuleList:
    """`block(width, drop path)`, `downsample(width, next width)`; the drop path rises through the network."""
    rates = torch.linspace(0, drop_path_rate, sum(depths), device="cpu").split(list(depths))
    stages = nn.ModuleList()
    for i, width in enumerate(widths):
        first = downsample(widths[i - 1], width) if i else None
        stages.append(Stage([block(width, rate) for rate in rates[i].tolist()], first))
    return stages


class Backbone(Classifier):
    """A hierarchy of stages. Takes float images (b, in_chans, H, W) of one patch or more.

    A network has an `tokenizer`, which makes pixels tokens with a traversal, and `stages`; built, it calls `finish`.
    """

    tokenizer: nn.Module
    stages: nn.ModuleList
    stem_pattern = r"^tokenizer"

    def finish(
        self, widths: Sequence[int], patch_size: int, num_classes: int, global_pool: str, drop_rate: float
    ) -> None:
        self.grad_checkpointing = False
        self.feature_info = [
            {"num_chs": width, "reduction": patch_size * 2**i, "module": f"stages.{i}"}
            for i, width in enumerate(widths)
        ]
        self.num_features = self.head_hidden_size = widths[-1]
        self.norm = nn.LayerNorm(self.num_features)
        self.head_drop = nn.Dropout(drop_rate)
        self.reset_classifier(num_classes, global_pool)

    def embed(self, images: Float[Tensor, "b rgb H W"]) -> Tokens:
        return self.tokenizer(images)

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tensor:
        tokens = self.forward_tokens(images)
        # A pooled answer needs no turning back, and is the same bits for every turn without it.
        return self.forward_head(tokens.x if self.global_pool else tokens.in_image_order())

    def _stages(self, images: Tensor, count: int | None = None) -> list[Tokens]:
        """The tokens after each of the first `count` stages."""
        x, traversal, frame = self.embed(images)
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
        """The last stage's tokens, normalized, in raster order of the given images."""
        return self.forward_tokens(images).in_image_order()

    def forward_tokens(self, images: Float[Tensor, "b rgb H W"]) -> Tokens:
        """The last stage's tokens, normalized, in the canonical frame if there is one: pooled, they are the same bits
        for every quarter turn."""
        return self._normalized(self._stages(images)[-1])

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
        maps = [(self._normalized(stages[i]) if i in finals else stages[i]).maps() for i in wanted]
        if intermediates_only:
            return maps
        whole = len(stages) == len(self.stages)
        return (self._normalized(stages[-1]) if whole else stages[-1]).in_image_order(), maps

    def forward_traversals(self, images: Float[Tensor, "b rgb H W"]) -> tuple[Tensor, list[Traversal]]:
        """The logits, and the visiting orders of every stage on the grid of the given images."""
        stages = self._stages(images)
        return self.forward_head(self.norm(stages[-1].x)), [tokens.image_traversal() for tokens in stages]

    def _normalized(self, tokens: Tokens) -> Tokens:
        return tokens._replace(x=self.norm(tokens.x))

    # -- the rest of timm's contract ------------------------------------------------------------------------------

    def group_matcher(self, coarse: bool = False) -> dict:
        return {
            "stem": self.stem_pattern,
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
        """Drop what the chosen feature maps do not need; the norm, which is the last stage's, goes with it."""
        wanted, last = feature_take_indices(len(self.stages), indices)
        if prune_norm or last + 1 < len(self.stages):
            self.norm = nn.Identity()
        self.stages = self.stages[: last + 1]
        if prune_head:
            self.reset_classifier(0, "")
        return wanted
