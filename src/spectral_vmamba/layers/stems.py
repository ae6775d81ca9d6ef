"""Stems: from pixels to one feature vector per patch."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from math import log2
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.folding import fold_norms


def padding_for(side: int, multiple: int) -> int:
    """How much is missing to the next multiple. Avoids %, which some compilers of dynamic shapes do not support."""
    return (side + multiple - 1) // multiple * multiple - side


def pad_to_patches(images: Float[Tensor, "b c H W"], patch_size: int) -> Float[Tensor, "b c H2 W2"]:
    """Zero-pad to whole patches, evenly on both sides; an odd pixel is added on the right and below.

    This keeps invariance: RFN pads every turned view, and turning the image only permutes the views.
    """
    missing_rows, missing_columns = (padding_for(side, patch_size) for side in images.shape[-2:])
    if not missing_rows and not missing_columns:
        return images
    left, top = missing_columns // 2, missing_rows // 2
    return F.pad(images, (left, missing_columns - left, top, missing_rows - top))


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of (b, c, h, w). Unlike BatchNorm, never depends on the batch."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvStem(nn.Sequential):
    """3×3 convolutions of stride 2 down to one cell per patch, trained from scratch."""

    def __init__(self, in_chans: int, channels: int, patch_size: int):
        halvings = round(log2(patch_size)) if patch_size > 0 else 0
        if halvings < 1 or 2**halvings != patch_size:
            raise ValueError(f"the conv stem needs a patch size that is a power of two, at least 2; got {patch_size}")
        widths = [in_chans, *(max(channels // 2**i, 8) for i in reversed(range(1, halvings))), channels]
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1), ChannelNorm(wide), nn.GELU()]
        super().__init__(*layers[:-1])
        self.channels = channels
        self.finer_channels = tuple(widths[2:-1])

    def forward_maps(self, images: Float[Tensor, "b c H W"]) -> list[Float[Tensor, "b _ _ _"]]:
        """The maps of strides 2 or 4 to the patch size, each after its activation; the last is that of `forward`."""
        maps = []
        for layer in self:
            if isinstance(layer, nn.Conv2d):
                maps.append(images)
            images = layer(images)
        return [*maps[2:], images]


_PIXELS_PER_CHUNK = 16 * 128 * 128


def images_per_chunk(height: int, width: int) -> int:
    """How many images a pretrained stem processes together on a CPU."""
    return max(_PIXELS_PER_CHUNK // (height * width), 1)


class PretrainedStem(nn.Module):
    """A pretrained network; its BatchNorm keeps its statistics under `.train()`, so that no image depends on others.

    With `frozen`, it has no trainable parameters; gradients still flow to images that require them.

    `missing_weights` tells that the weights were not found, and how to get them. All of them are then NaN until a
    checkpoint is loaded, and `require_weights`, also called by `forward`, raises a FileNotFoundError with that message.
    """

    def __init__(
        self,
        body: nn.Module,
        channels: int,
        in_chans: int = 3,
        missing_weights: str | None = None,
        finer_channels: tuple[int, ...] = (),
        frozen: bool = True,
    ):
        """`finer_channels`: of the maps that `body.maps` returns before the last one."""
        super().__init__()
        self.body = body.requires_grad_(not frozen)
        self.frozen = frozen
        self.channels = channels
        self.finer_channels = finer_channels
        self.missing_weights = missing_weights
        self.train(False)
        if any(isinstance(module, nn.BatchNorm2d) for module in body.modules()):
            fold_norms(self.body, (1, in_chans, 64, 64))
        if missing_weights is not None:
            for parameter in self.body.parameters():
                nn.init.constant_(parameter, torch.nan)
            self.register_load_state_dict_post_hook(_forget_loaded_weights)

    def require_weights(self) -> None:
        """Raise a FileNotFoundError if the weights were not found and none were loaded since."""
        if self.missing_weights is None:
            return
        if any(parameter.isnan().any() for parameter in self.body.parameters()):
            raise FileNotFoundError(self.missing_weights)
        self.missing_weights = None

    def train(self, mode: bool = True) -> "PretrainedStem":
        return super().train(False)

    def forward(self, images: Float[Tensor, "b c H W"]) -> Float[Tensor, "b c2 h w"]:
        return self._in_chunks(images, lambda chunk: [self.body(chunk)])[0]

    def forward_maps(self, images: Float[Tensor, "b c H W"]) -> list[Float[Tensor, "b _ _ _"]]:
        """The maps of strides 2 or 4 to the patch size; the last is that of `forward`."""
        body: Any = self.body
        return self._in_chunks(images, body.maps)

    def _in_chunks(self, images: Tensor, body: Callable[[Tensor], list[Tensor]]) -> list[Tensor]:
        self.require_weights()
        # Channels last: CPU convolutions run about 1.6 times as fast (ResNet-18, 224 px, measured).
        images = images.contiguous(memory_format=torch.channels_last)
        if images.device.type != "cpu" or torch.compiler.is_compiling():
            return body(images)
        # Feature maps of few images stay in the processor's cache and reuse their memory: twice as fast as batches of
        # 64 images (EfficientNet-Lite0, 128 px, measured).
        chunks = [body(chunk) for chunk in images.split(images_per_chunk(*images.shape[-2:]))]
        return [torch.cat(maps) for maps in zip(*chunks, strict=True)]


def _forget_loaded_weights(stem: PretrainedStem, _incompatible_keys: object) -> None:
    """Hook after `load_state_dict`: weights that are there are not missing any more."""
    with suppress(FileNotFoundError):
        stem.require_weights()
