"""Check the images that a network is given."""

import torch
from torch import Tensor

_CHANNEL_ADVICE = {
    1: "repeat a gray image with images.expand(-1, 3, -1, -1), or build the model with in_chans=1",
    2: "drop the alpha channel of a gray image with images[:, :1].expand(-1, 3, -1, -1)",
    4: "drop an alpha channel with images[:, :3], or build the model with in_chans=4",
}


def check_images(images: Tensor, in_chans: int, patch_size: int) -> None:
    """Raise a ValueError that names the given shape or dtype, the expected one, and a remedy.

    NaN and infinite pixels are found only outside compiled graphs. In compiled graphs the spectral op checks the
    features.
    """
    shape = tuple(images.shape)
    if images.dim() != 4:
        advice = "; add a batch axis with images[None]" if images.dim() == 3 else ""
        raise ValueError(f"expected images (b, {in_chans}, H, W), got {shape}{advice}")
    if shape[1] != in_chans:
        advice = f"build the model with in_chans={shape[1]}"
        if in_chans == 3:
            advice = _CHANNEL_ADVICE.get(int(shape[1]), advice)
        if shape[3] == in_chans:
            advice = "move the channels first with images.permute(0, 3, 1, 2)"
        raise ValueError(f"expected images with {in_chans} channels, (b, {in_chans}, H, W), got {shape}; {advice}")
    if shape[2] < patch_size or shape[3] < patch_size:
        raise ValueError(
            f"expected images of at least one patch, {patch_size} × {patch_size} pixels, got {shape}; "
            f"enlarge or pad them"
        )
    if not images.is_floating_point():
        raise ValueError(
            f"expected floating point images, got {images.dtype}; convert with images.float() / 255 and normalize with "
            f"the mean and std of model.pretrained_cfg"
        )
    check_finite(images)


def check_finite(images: Tensor) -> None:
    """Raise a ValueError that names the first image with NaN or infinite pixels, outside compiled graphs."""
    if not torch.compiler.is_compiling() and not images.is_meta:
        invalid = images.isfinite().flatten(1).all(1).logical_not().nonzero().flatten().tolist()
        if invalid:
            raise ValueError(
                f"image {invalid[0]} of the batch has NaN or infinite pixels ({len(invalid)} such images in total)"
            )
