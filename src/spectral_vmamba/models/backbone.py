"""Base class of hierarchical networks: tokenizer, stages of blocks, norm, pooling and head, under timm's contract."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float
from timm.layers.drop import DropPath
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.layers.downsample import max_pool
from spectral_vmamba.models.classifier import Classifier, init_linear, pool_tokens
from spectral_vmamba.models.framing import Posed
from spectral_vmamba.models.tokenizer import PatternTokenizer, SpectralTokenizer
from spectral_vmamba.models.tokens import Features, GridFeatures, Inputs, Tokens
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
    `config_class`, `build_input_layers`, `build_downsample` and `build_block`.
    """

    tokenizer: SpectralTokenizer | PatternTokenizer
    stages: nn.ModuleList
    stem_pattern = r"^tokenizer"  # parameters of the input layers, for `group_matcher`
    output_fmt = "NCHW"  # of `forward_features`, where timm looks for it

    def __init__(self, *, img_size: int | tuple[int, int] | None = None, **keywords):
        """`img_size` is accepted because timm may pass it, and ignored: every size works."""
        super().__init__(**keywords)

    @classmethod
    def cfg_entries(cls, config: Any, size: tuple[int, int]) -> dict[str, Any]:
        rows, columns = (-(-side // config.patch_size) for side in size)
        last = Grid(rows, columns, level=(config.stage_strides[-1] // config.patch_size).bit_length() - 1)
        return {"first_conv": "tokenizer.stem.0", "pool_size": (last.height, last.width)}

    def build_input_layers(self) -> None:
        """Create `tokenizer`, and any layers between it and the first stage."""
        raise NotImplementedError

    def build_downsample(self, width: int, new_width: int, halve: bool) -> nn.Module:
        """Create the layer between two stages; `halve`: whether it halves the grid."""
        raise NotImplementedError

    def build_block(self, width: int, drop_path: nn.Module) -> nn.Module:
        raise NotImplementedError

    def build_layers(self, drop_path_rate: float) -> None:
        config = self.config
        widths, depths, strides = config.widths, config.depths, config.stage_strides
        self.build_input_layers()
        rates = torch.linspace(0, drop_path_rate, sum(depths), device="cpu").split(list(depths))
        self.stages = nn.ModuleList()
        for i, width in enumerate(widths):
            downsample = self.build_downsample(widths[i - 1], width, strides[i] > strides[i - 1]) if i else None
            drop_paths = [DropPath(rate) if rate else nn.Identity() for rate in rates[i].tolist()]
            self.stages.append(Stage([self.build_block(width, drop_path) for drop_path in drop_paths], downsample))
        # For tools that hook a layer and expect feature maps, such as Grad-CAM: the output of stage i passes through
        # `stage_maps[i]` as (b, c, h, w) in the orientation of the images if, and only if, that module has hooks.
        self.stage_maps = nn.ModuleList(nn.Identity() for _ in widths)
        # feature maps of the stem, of the stages, and pooled ones: see `HierarchyConfig.pyramid`
        self.finer_maps, self.coarser_maps = len(config.finer_strides), len(config.coarser_strides)
        channels = (*self.tokenizer.finer_channels, *widths, *widths[-1:] * self.coarser_maps)
        # Names of modules for stages; other maps have no module of their own, and get names that differ.
        modules = (
            *(f"tokenizer.stride_{stride}" for stride in config.finer_strides),
            *(f"stages.{i}" for i in range(len(widths))),
            *(f"pooled.stride_{stride}" for stride in config.coarser_strides),
        )
        self.feature_info = [
            {"num_chs": width, "reduction": stride, "module": module}
            for width, stride, module in zip(channels, config.strides, modules, strict=True)
        ]
        self.num_features = self.head_hidden_size = widths[-1]
        self.norm = nn.LayerNorm(self.num_features)

    def reset_parameters(self) -> None:
        self.stages.apply(init_linear)

    # -- from pixels to logits ------------------------------------------------------------------------------------

    def forward_once(self, inputs: Inputs, pre_logits: bool = False) -> Tensor:
        return self.forward_head(self.forward_tokens(inputs), pre_logits)

    def enter_frame(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Posed:
        return self.tokenizer.stem_input(images)

    def tokenize(self, inputs: Inputs) -> Tokens:
        """Return the tokens that enter the first stage."""
        return inputs if isinstance(inputs, Tokens) else self.tokenizer(inputs)

    def forward_features(self, inputs: Inputs) -> Float[Tensor, "b c h w"]:
        """Return the normalized feature maps of the last stage, in the orientation of the images."""
        return self.forward_tokens(inputs).maps()

    def forward_tokens(self, inputs: Inputs) -> Tokens:
        """Return the normalized tokens of the last stage, in the frame if the network has one.

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
        tokens = self.tokenize(inputs)
        outputs = []
        for stage, maps in zip(self.stages[:count], self.stage_maps, strict=False):
            x, traversal = stage(tokens.x, tokens.traversal, self.grad_checkpointing)
            tokens = Tokens(x, traversal, tokens.pose)
            if maps._forward_hooks or maps._forward_pre_hooks or maps._backward_hooks:
                tokens = tokens.with_maps(maps(tokens.maps()))
            outputs.append(tokens)
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
        """Return what `forward_features` returns, and the chosen features, in the orientation of the images: those of
        the stages, and with `pyramid` finer and coarser ones, in the order of `feature_info`.

        `output_fmt` is the layout of the chosen features: maps "NCHW" (b, c, h, w) or "NHWC" (b, h, w, c), or "NLC"
        (b, l, c), the tokens in raster order, without the cells outside a disk. `norm` applies to the last stage, and
        to what is pooled from it: the other stages have other widths. With `stop_early`, the first result is of the
        last stage that was run.
        """
        chosen, last = feature_take_indices(self._feature_maps, indices)
        finer: list[GridFeatures] = []
        if min(chosen, default=self.finer_maps) < self.finer_maps:
            x, finer = self._tokenize_with_maps(x)
        stages = self._run_stages(x, max(last + 1 - self.finer_maps, 0) if stop_early else None)
        complete = len(stages) == len(self.stages) > 0
        final = self._normalize(stages[-1]) if complete else [self.tokenize(x), *stages][-1]
        if complete and norm:
            stages[-1] = final
        if last >= self.finer_maps + len(self.stages):
            stages += self._pool_repeatedly(stages[-1])
        levels = [finer[i] if i < self.finer_maps else stages[i - self.finer_maps].features() for i in chosen]
        features = [level.in_format(output_fmt) for level in levels]
        return features if intermediates_only else (final.maps(), features)

    @property
    def _feature_maps(self) -> int:
        return self.finer_maps + len(self.stages) + self.coarser_maps

    def _tokenize_with_maps(self, inputs: Inputs) -> tuple[Tokens, list[GridFeatures]]:
        if isinstance(inputs, Tokens) or isinstance(self.tokenizer, PatternTokenizer):
            raise ValueError(
                "expected images for feature maps that are finer than a patch, got tokens; choose later maps by "
                f"indices ≥ {self.finer_maps}"
            )
        return self.tokenizer.forward_maps(inputs)

    def _pool_repeatedly(self, tokens: Tokens) -> list[Tokens]:
        config, pooled = self.config, []
        strides = (config.stage_strides[-1], *config.coarser_strides[: self.coarser_maps])
        for before, after in pairwise(strides):
            if after > before:
                tokens = Tokens(*max_pool(tokens.x, tokens.traversal), tokens.pose)
            pooled.append(tokens)
        return pooled

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
        chosen, last = feature_take_indices(self._feature_maps, indices)
        needed = max(last + 1 - self.finer_maps, 0)
        if prune_norm or needed < len(self.stages):
            self.norm = nn.Identity()
        self.coarser_maps = max(needed - len(self.stages), 0)
        self.stages = self.stages[:needed]
        if prune_head:
            self.reset_classifier(0, "")
        return chosen
