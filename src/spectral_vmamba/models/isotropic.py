"""What Vim and LocalVim share: timm's contract over "patches, then blocks of one width, then norm, pool and head"."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from timm.layers.drop import DropPath
from timm.models._features import feature_take_indices
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from spectral_vmamba.layers.directional import DirectionalMixer, GridSize
from spectral_vmamba.layers.rope import rotate_by_place
from spectral_vmamba.layers.stems import missing
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.conversion import Rule, renamed, reshaped
from spectral_vmamba.models.inputs import check_images
from spectral_vmamba.models.positions import apart, fitted, joined, resampled
from spectral_vmamba.ops.selective_scan import Backend


@dataclass(frozen=True)
class IsotropicConfig:
    """The choices that both families have; each is also a keyword of `timm.create_model`."""

    width: int = 192
    depth: int = 24
    state_size: int = 16
    patch_size: int = 16
    img_size: int | tuple[int, int] = 224  # the size of the position table; images may have any
    backend: Backend = "auto"

    def __post_init__(self):
        for name in ("width", "depth", "state_size", "patch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} ≥ 1, got {getattr(self, name)}")
        if min(self.grid) < 1:
            raise ValueError(f"expected an img_size of at least one pixel, got {self.img_size}")

    @property
    def grid(self) -> GridSize:
        height, width = (self.img_size, self.img_size) if isinstance(self.img_size, int) else self.img_size
        return -(-height // self.patch_size), -(-width // self.patch_size)


class StreamNorm(nn.RMSNorm):
    """RMSNorm of the stream, which is float32, in the dtype of its own weight."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


class IsotropicBlock(nn.Module):
    """x = x + mixer(norm(x)); with `rotary`, x is turned by its place on the grid before.

    The published code hands on x and the mixer's output apart and adds them, dropped and turned, at the start of the
    next block. Both operations are linear, so it is the same function.
    """

    def __init__(self, width: int, mixer: nn.Module, drop_path: float, rotary: bool):
        super().__init__()
        self.rotary = rotary
        self.norm = StreamNorm(width)
        self.mixer = mixer
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Float[Tensor, "b l c"], grid: GridSize) -> Float[Tensor, "b l c"]:
        if self.rotary:
            x = rotate_by_place(x, *grid)
        return x + self.drop_path(self.mixer(self.norm(x), grid))


class IsotropicBackbone(Classifier):
    """Patches with learned positions, one block per mixer, norm and head. Takes float images of one patch or more;
    sides that are no whole number of patches are filled with zeros below and to the right.

    A class token, if there is one, stands in the middle of the sequence.
    """

    undecayed = ("pos_embed", "cls_token")

    def __init__(
        self,
        config: IsotropicConfig,
        mixers: Sequence[DirectionalMixer],
        class_token: bool,
        rotary: bool,
        num_classes: int,
        in_chans: int,
        global_pool: str,
        drop_rate: float,
        drop_path_rate: float,
    ):
        super().__init__(in_chans)
        self.config = config
        self.grad_checkpointing = False
        self.num_features = self.head_hidden_size = width = config.width
        self.num_prefix_tokens = 0  # timm cuts so many off the front of the sequence; ours stands in the middle
        self.pools = ("token", *Classifier.pools) if class_token else Classifier.pools
        self.patch_embed = nn.Conv2d(in_chans, width, config.patch_size, config.patch_size)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width)) if class_token else None
        tokens = config.grid[0] * config.grid[1] + class_token
        self.pos_embed = nn.Parameter(torch.empty(1, tokens, width))  # in the order of the sequence
        rates = torch.linspace(0, drop_path_rate, len(mixers), device="cpu").tolist()
        self.blocks = nn.ModuleList(
            IsotropicBlock(width, mixer, rate, rotary) for mixer, rate in zip(mixers, rates, strict=True)
        )
        self.feature_info = [
            {"num_chs": width, "reduction": config.patch_size, "module": f"blocks.{i}"} for i in range(len(mixers))
        ]
        self.norm = StreamNorm(width)
        self.head_drop = nn.Dropout(drop_rate)
        self.reset_classifier(num_classes, global_pool)
        self._reset_parameters(mixers)

    def _reset_parameters(self, mixers: Sequence[DirectionalMixer]) -> None:
        for table in (self.pos_embed, self.cls_token):
            if table is not None:
                nn.init.trunc_normal_(table, std=0.02)
        for mixer in mixers:
            bound = (mixer.out_proj.in_features * len(mixers)) ** -0.5  # torch's own, over √depth
            nn.init.uniform_(mixer.out_proj.weight, -bound, bound)

    # -- from pixels to logits ------------------------------------------------------------------------------------

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Tensor:
        return self.forward_head(self.forward_features(images))

    def forward_features(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b s c"]:
        """All tokens, normalized, in the order of the sequence."""
        return self.norm(self._stream(images)[0])

    def forward_head(self, x: Float[Tensor, "b s c"], pre_logits: bool = False) -> Tensor:
        class_token, patches = apart(x, self.cls_token is not None)
        if self.global_pool == "token":
            x = class_token[:, 0]
        elif self.global_pool == "avg":
            x = patches.mean(1)
        elif self.global_pool == "max":
            x = patches.amax(1)
        x = self.head_drop(x)
        return x if pre_logits else self.head(x)

    def embed(self, images: Float[Tensor, "b rgb H W"]) -> tuple[Float[Tensor, "b s c"], GridSize]:
        check_images(images, self.in_chans, self.config.patch_size)
        missing_rows, missing_columns = (missing(side, self.config.patch_size) for side in images.shape[-2:])
        maps = self.patch_embed(F.pad(images, (0, missing_columns, 0, missing_rows)))
        grid = (maps.shape[-2], maps.shape[-1])
        x = maps.flatten(2).mT
        if self.cls_token is not None:
            x = joined(self.cls_token.expand(x.shape[0], -1, -1), x)
        x = x + resampled(self.pos_embed, self.cls_token is not None, self.config.grid, grid)
        return x.to(torch.promote_types(x.dtype, torch.float32)), grid

    def _stream(
        self, images: Tensor, blocks: int | None = None, keep: Collection[int] = ()
    ) -> tuple[Float[Tensor, "b s c"], dict[int, Tensor], GridSize]:
        """The tokens after so many blocks, and those after the blocks to keep."""
        x, grid = self.embed(images)
        kept = {}
        for i, block in enumerate(self.blocks[:blocks]):
            x = checkpoint(block, x, grid, use_reentrant=False) if self.grad_checkpointing else block(x, grid)
            if i in keep:
                kept[i] = x
        return x, kept, grid

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
        """Maps (b, c, h, w), or patches (b, l, c) for "NLC", after the chosen blocks, all through the final norm if
        `norm`. With `return_prefix_tokens` each comes in a pair with its class token, if the network has one."""
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"expected output_fmt 'NCHW' or 'NLC', got {output_fmt!r}")
        wanted, last = feature_take_indices(len(self.blocks), indices)
        final, kept, grid = self._stream(x, last + 1 if stop_early else None, wanted)
        pairs = [apart(self.norm(kept[i]) if norm else kept[i], self.cls_token is not None) for i in wanted]
        intermediates: list = [patches for _, patches in pairs]
        if output_fmt == "NCHW":
            intermediates = [patches.mT.unflatten(2, grid) for patches in intermediates]
        if return_prefix_tokens and self.cls_token is not None:
            intermediates = [(m, class_token) for m, (class_token, _) in zip(intermediates, pairs, strict=True)]
        return intermediates if intermediates_only else (self.norm(final), intermediates)

    def prune_intermediate_layers(
        self, indices: int | list[int] = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drop what the chosen feature maps do not need."""
        wanted, last = feature_take_indices(len(self.blocks), indices)
        self.blocks = self.blocks[: last + 1]
        if prune_norm:
            self.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")
        return wanted

    def group_matcher(self, coarse: bool = False) -> dict:
        return {
            "stem": r"^(?:cls_token|pos_embed|patch_embed)",
            "blocks": [(r"^blocks\.(\d+)", None), (r"^norm", (99999,))],
        }


_STACKED = r".*\.s6\.\w+"  # what released checkpoints have without our leading axis of parameter sets
_DIRECTION = {
    "conv1d.weight": "conv.weight",
    "conv1d.bias": "conv.bias",
    "x_proj.weight": "s6.x_proj",
    "dt_proj.weight": "s6.dt_proj",
    "dt_proj.bias": "s6.dt_bias",
    "A_log": "s6.A_log",
    "D": "s6.D",
}


def released_rules(suffix: str, direction: Callable[[str], int]) -> list[Rule]:
    """The names of released checkpoints. `suffix` matches the mark of a direction in the names of its parameters; from
    what its group matched, `direction` tells which one it is."""

    def rule(theirs: str, ours: str) -> Rule:
        module, dot, kind = theirs.partition(".")
        pattern = rf"layers\.(\d+)\.mixer\.{module}{suffix}{re.escape(dot + kind)}"
        return pattern, lambda m: f"blocks.{m[1]}.mixer.directions.{direction(m[2])}.{ours}"

    return [
        *(rule(theirs, ours) for theirs, ours in _DIRECTION.items()),
        (r"layers\.(\d+)\.(norm\.weight|mixer\.(?:in|out)_proj\.weight)", r"blocks.\1.\2"),
        (r"patch_embed\.proj\.(.*)", r"patch_embed.\1"),
        (r"norm_f\.weight", "norm.weight"),
    ]


def convert_isotropic(
    state: dict[str, Tensor], model: nn.Module, rules: Sequence[Rule], dropped: str | None = None
) -> dict[str, Tensor]:
    """A released checkpoint under our names, its positions resampled to the model's grid."""
    assert isinstance(model, IsotropicBackbone)
    state = reshaped(renamed(state, rules, dropped), model, _STACKED)
    if "pos_embed" in state:
        state["pos_embed"] = fitted(state["pos_embed"], model.cls_token is not None, model.config.grid)
    return state
