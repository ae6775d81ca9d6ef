"""Random views of an image and its mask for training, changed alike."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from spectral_vmamba.segmentation.crop_sampling import CropWindow, draw_window
from spectral_vmamba.segmentation.photometry import PhotometricDistortion

_MAX_SIZE = 2**13
_MAX_SCALE = 64.0
_CROP_ATTEMPTS = 10

PixelsAndMask = tuple[UInt8[Tensor, "3 size size"], UInt8[Tensor, "size size"]]
MaskTransform = Callable[[Image.Image, UInt8[np.ndarray, "h w"]], PixelsAndMask]


@dataclass(frozen=True)
class MaskAugmentation:
    """Random changes to training images and their masks; the defaults are those of mmsegmentation's recipes."""

    scale: tuple[float, float] = (0.5, 2.0)
    """smallest and largest factor by which images are resized before the crop"""
    hflip: float = 0.5
    """probability of a horizontal flip"""
    vflip: float = 0.0
    """probability of a vertical flip"""
    rotation: float = 0.0
    """rotate randomly by up to this many degrees in each direction; corners are black, and ignored in the mask"""
    quarter_turns: bool = False
    """turn randomly by a multiple of 90°"""
    brightness: float = 32.0
    """largest change of brightness, of 255; applied, as the next three, with probability 1/2"""
    contrast: float = 0.5
    """largest relative change of contrast"""
    saturation: float = 0.5
    """largest relative change of saturation"""
    hue: float = 18.0
    """largest change of hue, where the circle is 180, as in OpenCV"""
    cat_max_ratio: float = 0.75
    """draw a crop again, up to 10 times, while one class covers more than this share of it; 1 to disable"""

    def __post_init__(self):
        low, high = self.scale
        if not 0 < low <= high <= _MAX_SCALE:
            raise ValueError(
                f"expected a scale of two ascending factors above 0, up to {_MAX_SCALE:g}, got {self.scale}"
            )
        for name in ("hflip", "vflip", "contrast", "saturation", "cat_max_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"expected {name} from 0 to 1, got {getattr(self, name)}")
        for name, largest in (("rotation", 180), ("brightness", 255), ("hue", 90)):
            if not 0 <= getattr(self, name) <= largest:
                raise ValueError(f"expected {name} from 0 to {largest}, got {getattr(self, name)}")

    def train_transform(self, size: int, ignore_index: int) -> MaskTransform:
        """Scale, rotate and crop to `size` × `size` in one resampling; change colors, flip and turn.

        Where a crop is larger than the image, it is black, and ignored in the mask. Draws from the global generators:
        see `seeding.reseed`.
        """
        if not 1 <= size <= _MAX_SIZE:
            raise ValueError(f"expected crops of 1 to {_MAX_SIZE} pixels per side, got {size}")
        return TrainPairTransform(self, size, ignore_index)


@dataclass(frozen=True)
class TrainPairTransform:
    augmentation: MaskAugmentation
    size: int
    ignore_index: int

    def __call__(self, image: Image.Image, mask: UInt8[np.ndarray, "h w"]) -> PixelsAndMask:
        settings = self.augmentation
        window, cropped_mask = self._draw_crop(mask)
        distort = PhotometricDistortion(settings.brightness, settings.contrast, settings.saturation, settings.hue)
        pixels = np.where(window.inside()[..., None], np.asarray(distort(window.crop_image(image))), np.uint8(0))
        pixels, cropped_mask = _flip_and_turn(settings, pixels, cropped_mask)
        # Copies: flipped arrays have negative strides.
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).contiguous(), torch.from_numpy(cropped_mask.copy())

    def _draw_crop(self, mask: UInt8[np.ndarray, "h w"]) -> tuple[CropWindow, UInt8[np.ndarray, "size size"]]:
        """The first of eleven windows in which no class covers too much of the labeled pixels, or the last one."""
        settings, (height, width) = self.augmentation, mask.shape
        scale = random.uniform(*settings.scale)
        angle = random.uniform(-settings.rotation, settings.rotation)
        for attempt in range(1 + _CROP_ATTEMPTS):
            window = draw_window(width, height, self.size, scale, angle)
            cropped = window.crop_mask(mask, self.ignore_index)
            if settings.cat_max_ratio == 1 or attempt == _CROP_ATTEMPTS or self._is_mixed(cropped):
                break
        return window, cropped

    def _is_mixed(self, mask: UInt8[np.ndarray, "size size"]) -> bool:
        counts = np.bincount(mask.ravel(), minlength=256)
        counts[self.ignore_index] = 0
        return counts.max() > 0 and counts.max() <= self.augmentation.cat_max_ratio * counts.sum()


def _flip_and_turn(
    settings: MaskAugmentation, *arrays: UInt8[np.ndarray, "size size *c"]
) -> list[UInt8[np.ndarray, "size size *c"]]:
    """Change all arrays alike, by copies of their pixels."""
    hflip, vflip = random.random() < settings.hflip, random.random() < settings.vflip
    quarters = random.randrange(4) if settings.quarter_turns else 0
    flips = tuple(axis for axis, flip in ((0, vflip), (1, hflip)) if flip)
    return [np.rot90(np.flip(array, flips), quarters).copy() for array in arrays]
