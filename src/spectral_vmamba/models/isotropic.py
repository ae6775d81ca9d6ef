"""Base class of Vim and LocalVim: patches, blocks of one width, norm, pooling and head, under timm's contract."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from timm.layers.drop import DropPath
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.layers.directional import DirectionalMixer, GridSize
from spectral_vmamba.layers.rope import apply_rotary_embedding
from spectral_vmamba.layers.stems import padding_for
from spectral_vmamba.models.classifier import Classifier, pool_tokens
from spectral_vmamba.models.conversion import Rule, rename_keys, reshape_tensors
from spectral_vmamba.models.framing import Posed, check_and_enter_frame
from spectral_vmamba.models.network_config import IsotropicConfig
from spectral_vmamba.models.positions import fit_positions, insert_class_token, resample_positions, split_class_token
from spectral_vmamba.ops.frames import Pose


class StreamNorm(nn.RMSNorm):
    """RMSNorm of the residual stream, which is float32, in the dtype of its own weight."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


class IsotropicBlock(nn.Module):
    """x = x + mixer(norm(x)). With `rotary`, a rotary position embedding is applied to x first.

    The published code passes x and the mixer's output separately to the next block, which adds them after drop path and
    rotation. Both operations are linear, so the function is the same.
    """

    def __init__(self, width: int, mixer: nn.Module, drop_path: float, rotary: bool):
        super().__init__()
        self.rotary = rotary
        self.norm = StreamNorm(width)
        self.mixer = mixer
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Float[Tensor, "b l c"], grid: GridSize) -> Float[Tensor, "b l c"]:
        if self.rotary:
            x = apply_rotary_embedding(x, *grid)
        return x + self.drop_path(self.mixer(self.norm(x), grid))


class PatchSequence(NamedTuple):
    """A sequence of patches, with a class token in the middle or without. With a frame, `x` and `grid` are in that
    frame, and `pose` converts back."""

    x: Float[Tensor, "b s c"]
    grid: GridSize
    has_class_token: bool
    pose: Pose | None

    def class_token(self) -> Float[Tensor, "b p c"]:
        return split_class_token(self.x, self.has_class_token)[0]

    def maps(self) -> Float[Tensor, "b c h w"]:
        """The patches as feature maps in the orientation of the original images."""
        maps = split_class_token(self.x, self.has_class_token)[1].mT.unflatten(2, self.grid)
        return self.pose.undo(maps) if self.pose else maps

    def patches(self) -> Float[Tensor, "b l c"]:
        """The patches in raster order of the original images."""
        return self.maps().flatten(2).mT

    def in_image_order(self) -> Float[Tensor, "b s c"]:
        """The sequence with its patches in raster order of the original images."""
        if self.pose is None:
            return self.x
        return insert_class_token(self.class_token(), self.patches())


class IsotropicBackbone(Classifier):
    """Patches with learned positions, then one block per mixer. Takes float images (b, in_chans, H, W) of at least one
    patch; incomplete patches are padded with zeros below and to the right.

    The class token, if the network has one, is in the middle of the sequence. A subclass defines `config_class`,
    `build_mixers` and the two flags.
    """

    config: IsotropicConfig
    has_class_token: bool
    rotary: bool
    no_decay_suffixes = ("pos_embed", "cls_token")

    @classmethod
    def cfg_entries(cls, config: Any, size: tuple[int, int]) -> dict[str, Any]:
        return {"first_conv": "patch_embed", "pool_size": None}  # None as in timm's ViT: the features are a sequence

    def build_mixers(self) -> Sequence[DirectionalMixer]:
        """Return one mixer per block."""
        raise NotImplementedError

    def build_layers(self, drop_path_rate: float) -> None:
        config, width = self.config, self.config.width
        mixers = self.build_mixers()
        self.num_features = self.head_hidden_size = width
        self.num_prefix_tokens = 0  # timm cuts this many tokens off the front; the class token is not there
        self.patch_embed = nn.Conv2d(self.in_chans, width, config.patch_size, config.patch_size)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width)) if self.has_class_token else None
        tokens = config.grid[0] * config.grid[1] + self.has_class_token
        self.pos_embed = nn.Parameter(torch.empty(1, tokens, width))  # in the order of the sequence
        rates = torch.linspace(0, drop_path_rate, len(mixers), device="cpu").tolist()
        self.blocks = nn.ModuleList(
            IsotropicBlock(width, mixer, rate, self.rotary) for mixer, rate in zip(mixers, rates, strict=True)
        )
        self.feature_info = [
            {"num_chs": width, "reduction": config.patch_size, "module": f"blocks.{i}"} for i in range(len(mixers))
        ]
        self.norm = StreamNorm(width)

    def reset_parameters(self) -> None:
        for table in (self.pos_embed, self.cls_token):
            if table is not None:
                nn.init.trunc_normal_(table, std=0.02)
        blocks: list[Any] = list(self.blocks)
        for block in blocks:
            projection = block.mixer.out_proj
            bound = (projection.in_features * len(blocks)) ** -0.5  # torch's own bound, divided by √depth
            nn.init.uniform_(projection.weight, -bound, bound)

    def convert_checkpoint(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        raise NotImplementedError

    def _convert(self, state: dict[str, Tensor], rules: Sequence[Rule], drop: str | None = None) -> dict[str, Tensor]:
        """Rename the keys, add the axis of parameter sets and resample the position table."""
        state = reshape_tensors(rename_keys(state, rules, drop), self, r".*\.s6\.\w+")
        if "pos_embed" in state:
            state["pos_embed"] = fit_positions(state["pos_embed"], self.has_class_token, self.config.grid)
        return state

    # -- from pixels to logits ------------------------------------------------------------------------------------

    def forward_once(self, images: Float[Tensor, "b rgb H W"] | Posed, pre_logits: bool = False) -> Tensor:
        sequence = self.forward_tokens(images)
        return self.forward_head(sequence.x if self.global_pool else sequence.in_image_order(), pre_logits)

    def enter_frame(self, images: Float[Tensor, "b rgb H W"] | Posed) -> Posed:
        return check_and_enter_frame(images, self.config.frame, self.in_chans, self.config.patch_size)

    def forward_features(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b s c"]:
        """Return all tokens, normalized, in the order of the sequence; the patches in raster order of the images."""
        return self.forward_tokens(images).in_image_order()

    def forward_tokens(self, images: Float[Tensor, "b rgb H W"] | Posed) -> PatchSequence:
        """Return all tokens, normalized, in the frame if the network has one.

        After pooling, they are the same bits for every quarter turn.
        """
        return self._normalize(self._run_blocks(images)[0])

    def pool(self, features: Float[Tensor, "b s c"]) -> Tensor:
        """Pool over the patches, or return the class token, according to `global_pool`."""
        if not self.global_pool:
            return features
        class_token, patches = split_class_token(features, self.has_class_token)
        return class_token[:, 0] if self.global_pool == "token" else pool_tokens(patches, self.global_pool)

    def tokenize(self, images: Float[Tensor, "b rgb H W"] | Posed) -> PatchSequence:
        """Return the sequence that enters the first block."""
        images, pose = self.enter_frame(images)
        missing_rows, missing_columns = (padding_for(side, self.config.patch_size) for side in images.shape[-2:])
        maps = self.patch_embed(F.pad(images, (0, missing_columns, 0, missing_rows)))
        grid = (maps.shape[-2], maps.shape[-1])
        x = maps.flatten(2).mT
        if self.cls_token is not None:
            x = insert_class_token(self.cls_token.expand(x.shape[0], -1, -1), x)
        x = x + resample_positions(self.pos_embed, self.has_class_token, self.config.grid, grid)
        stream = x.to(torch.promote_types(x.dtype, torch.float32))
        return PatchSequence(stream, grid, self.has_class_token, pose)

    def _run_blocks(
        self, images: Tensor | Posed, count: int | None = None, chosen: Collection[int] = ()
    ) -> tuple[PatchSequence, dict[int, PatchSequence]]:
        """Return the tokens after the first `count` blocks, and the tokens after each chosen block."""
        sequence = self.tokenize(images)
        x, grid = sequence.x, sequence.grid
        outputs = {}
        for i, block in enumerate(self.blocks[:count]):
            x = checkpoint(block, x, grid, use_reentrant=False) if self.grad_checkpointing else block(x, grid)
            if i in chosen:
                outputs[i] = sequence._replace(x=x)
        return sequence._replace(x=x), outputs

    def _normalize(self, sequence: PatchSequence) -> PatchSequence:
        return sequence._replace(x=self.norm(sequence.x))

    # -- the rest of timm's contract ------------------------------------------------------------------------------

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | list[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ):
        """Return maps (b, c, h, w), or patches (b, l, c) for "NLC", after the chosen blocks.

        `norm` applies the final norm to all of them. With `return_prefix_tokens`, a network with a class token returns
        pairs of maps and class token.
        """
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"expected output_fmt 'NCHW' or 'NLC', got {output_fmt!r}")
        chosen, last = feature_take_indices(len(self.blocks), indices)
        final, outputs = self._run_blocks(x, last + 1 if stop_early else None, chosen)
        sequences = [self._normalize(outputs[i]) if norm else outputs[i] for i in chosen]
        intermediates: list = [each.maps() if output_fmt == "NCHW" else each.patches() for each in sequences]
        if return_prefix_tokens and self.has_class_token:
            intermediates = [(one, each.class_token()) for one, each in zip(intermediates, sequences, strict=True)]
        return intermediates if intermediates_only else (self._normalize(final).in_image_order(), intermediates)

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Remove the layers that the chosen feature maps do not need."""
        chosen, last = feature_take_indices(len(self.blocks), indices)
        self.blocks = self.blocks[: last + 1]
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
        return chosen

    def group_matcher(self, coarse: bool = False) -> dict:
        """Return the patterns by which timm groups parameters by depth."""
        return {
            "stem": r"^(?:cls_token|pos_embed|patch_embed)",
            "blocks": [(r"^blocks\.(\d+)", None), (r"^norm", (99999,))],
        }


_RELEASED_PARAMETERS = {
    "conv1d.weight": "conv.weight",
    "conv1d.bias": "conv.bias",
    "x_proj.weight": "s6.x_proj",
    "dt_proj.weight": "s6.dt_proj",
    "dt_proj.bias": "s6.dt_bias",
    "A_log": "s6.A_log",
    "D": "s6.D",
}


def block_rules(suffix: str, direction: Callable[[str], int]) -> list[Rule]:
    """Return the rules that rename a released Vim or LocalVim checkpoint.

    Released parameters of a direction carry a suffix, as in `conv1d_b.weight`. `suffix` is a pattern with one group
    that matches it; `direction` converts the text of the group to the index of the direction.
    """

    def rule(released: str, name: str) -> Rule:
        module, dot, kind = released.partition(".")
        pattern = rf"layers\.(\d+)\.mixer\.{module}{suffix}{re.escape(dot + kind)}"
        return pattern, lambda m: f"blocks.{m[1]}.mixer.directions.{direction(m[2])}.{name}"

    return [
        *(rule(released, name) for released, name in _RELEASED_PARAMETERS.items()),
        (r"layers\.(\d+)\.(norm\.weight|mixer\.(?:in|out)_proj\.weight)", r"blocks.\1.\2"),
        (r"patch_embed\.proj\.(.*)", r"patch_embed.\1"),
        (r"norm_f\.weight", "norm.weight"),
    ]
