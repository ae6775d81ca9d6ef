"""Base class of hierarchical networks: tokenizer, stages of blocks, norm, pooling and head, under timm's contract."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from timm.layers.drop import DropPath
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.models.classifier import Classifier, init_linear, pool_tokens
from spectral_vmamba.models.tokenizer import PatternTokenizer, SpectralTokenizer
from spectral_vmamba.models.tokens import Features, Inputs, Tokens
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal


class Stage(nn.Module):
    """An optional downsampling layer, then blocks on one grid."""

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


class Backbone(Classifier):
    """A hierarchy of stages. Takes float images (b, in_chans, H, W) of at least one patch.

    In place of images, every method also takes the `Tokens` that `tokenizer` returned for them. A subclass defines
    `config_class`, `downsample_class`, `build_input_layers` and `build_block`.
    """

    tokenizer: SpectralTokenizer | PatternTokenizer
    stages: nn.ModuleList
    downsample_class: type[nn.Module]  # called with a width and the next stage's width
    stem_pattern = r"^tokenizer"  # parameters of the input layers, for `group_matcher`
    output_fmt = "NCHW"  # of `forward_features`, where timm looks for it

    def __init__(self, *, img_size: int | tuple[int, int] | None = None, **keywords):
        """`img_size` is accepted because timm may pass it, and ignored: every size works."""
        super().__init__(**keywords)

    @classmethod
    def cfg_entries(cls, config: Any, size: tuple[int, int]) -> dict[str, Any]:
        rows, columns = (-(-side // config.patch_size) for side in size)
        last = Grid(rows, columns, level=len(config.widths) - 1)
        return {"first_conv": "tokenizer.stem.0", "pool_size": (last.height, last.width)}

    def build_input_layers(self) -> None:
        """Create `tokenizer`, and any layers between it and the first stage."""
        raise NotImplementedError

    def build_block(self, width: int, drop_path: nn.Module) -> nn.Module:
        raise NotImplementedError

    def build_layers(self, drop_path_rate: float) -> None:
        widths, depths = self.config.widths, self.config.depths
        self.build_input_layers()
        rates = torch.linspace(0, drop_path_rate, sum(depths), device="cpu").split(list(depths))
        self.stages = nn.ModuleList()
        for i, width in enumerate(widths):
            downsample = self.downsample_class(widths[i - 1], width) if i else None
            drop_paths = [DropPath(rate) if rate else nn.Identity() for rate in rates[i].tolist()]
            self.stages.append(Stage([self.build_block(width, drop_path) for drop_path in drop_paths], downsample))
        self.feature_info = [
            {"num_chs": width, "reduction": self.tokenizer.patch_size * 2**i, "module": f"stages.{i}"}
            for i, width in enumerate(widths)
        ]
        self.num_features = self.head_hidden_size = widths[-1]
        self.norm = nn.LayerNorm(self.num_features)

    def reset_parameters(self) -> None:
        self.stages.apply(init_linear)

    # -- from pixels to logits ------------------------------------------------------------------------------------

    def forward(self, inputs: Inputs) -> Tensor:
        # Pooled logits do not need the original orientation. Without turning back, they are the same bits for every
        # quarter turn.
        return self.forward_head(self.forward_tokens(inputs))

    def tokenize(self, inputs: Inputs) -> Tokens:
        """Return the tokens that enter the first stage."""
        return inputs if isinstance(inputs, Tokens) else self.tokenizer(inputs)

    def forward_features(self, inputs: Inputs) -> Float[Tensor, "b c h w"]:
        """Return the normalized feature maps of the last stage, in the orientation of the images."""
        return self.forward_tokens(inputs).maps()

    def forward_tokens(self, inputs: Inputs) -> Tokens:
        """Return the normalized tokens of the last stage, in the canonical frame if the network has one.

        After pooling, they are the same bits for every quarter turn.
        """
        return self._normalize(self._run_stages(inputs)[-1])

    def forward_head(self, features: Features, pre_logits: bool = False) -> Tensor:
        """Pool feature maps or tokens and classify them, or return the pooled features if `pre_logits`.

        Without pooling, every cell is classified: (b, classes, h, w), zero where there is no token.
        """
        if self.global_pool:
            return super().forward_head(features, pre_logits)
        maps = self.head_drop(features.maps() if isinstance(features, Tokens) else features)
        if pre_logits or not self.num_classes:
            return maps
        logits = self.head(maps.movedim(1, -1))
        cells = self._counted_cells(maps.flatten(2).mT)
        return (logits if cells is None else logits * cells.unflatten(1, maps.shape[-2:])).movedim(-1, 1)

    def pool(self, features: Features) -> Float[Tensor, "b c"]:
        """Pool over the tokens according to `global_pool`."""
        if isinstance(features, Tokens):
            return pool_tokens(features.x, self.global_pool)
        if features.dim() != 4:
            raise ValueError(
                f"expected feature maps (b, c, h, w) of forward_features, or Tokens, got {tuple(features.shape)}"
            )
        x = features.flatten(2).mT
        return pool_tokens(x, self.global_pool, self._counted_cells(x))

    def _counted_cells(self, x: Float[Tensor, "b l c"]) -> Bool[Tensor, "b l 1"] | None:
        """Which cells of flattened maps carry a token; None if all do.

        Maps do not tell the size of the image, on which the tokens of a disk depend. But cells without a token are zero
        in every channel. If all cells are zero, all are counted: the result is zero either way.
        """
        if self.tokenizer.domain == "square":
            return None
        cells = (x != 0).any(-1, keepdim=True)
        return cells | ~cells.any(1, keepdim=True)

    def forward_traversals(self, inputs: Inputs) -> tuple[Tensor, list[Traversal]]:
        """Return the logits, and the visiting orders of every stage on the grid of the images."""
        stages = self._run_stages(inputs)
        return self.forward_head(self._normalize(stages[-1])), [tokens.image_traversal() for tokens in stages]

    def _run_stages(self, inputs: Inputs, count: int | None = None) -> list[Tokens]:
        """Return the tokens after each of the first `count` stages."""
        x, traversal, frame = self.tokenize(inputs)
        outputs = []
        for stage in self.stages[:count]:
            x, traversal = stage(x, traversal, self.grad_checkpointing)
            outputs.append(Tokens(x, traversal, frame))
        return outputs

    def _normalize(self, tokens: Tokens) -> Tokens:
        return tokens._replace(x=self.norm(tokens.x))

    # -- the rest of timm's contract ------------------------------------------------------------------------------

    def forward_intermediates(
        self,
        x: Inputs,
        indices: int | list[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ):
        """Return what `forward_features` returns, and the features of the chosen stages, in the orientation of the
        images.

        `output_fmt` is the layout of the stages' features: maps "NCHW" (b, c, h, w) or "NHWC" (b, h, w, c), or "NLC"
        (b, l, c), the tokens in raster order, without the cells outside a disk. `norm` applies to the last stage only:
        the other stages have other widths. With `stop_early`, the first result is of the last stage that was run.
        """
        chosen, last = feature_take_indices(len(self.stages), indices)
        stages = self._run_stages(x, last + 1 if stop_early else None)
        normalized = {len(self.stages) - 1} if norm else set()
        features = [
            (self._normalize(stages[i]) if i in normalized else stages[i]).in_format(output_fmt) for i in chosen
        ]
        if intermediates_only:
            return features
        complete = len(stages) == len(self.stages)
        return (self._normalize(stages[-1]) if complete else stages[-1]).maps(), features

    def group_matcher(self, coarse: bool = False) -> dict:
        """Return the patterns by which timm groups parameters by depth."""
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
        """Remove the layers that the chosen feature maps do not need. The norm belongs to the last stage and is removed
        with it."""
        chosen, last = feature_take_indices(len(self.stages), indices)
        if prune_norm or last + 1 < len(self.stages):
            self.norm = nn.Identity()
        self.stages = self.stages[: last + 1]
        if prune_head:
            self.reset_classifier(0, "")
        return chosen
