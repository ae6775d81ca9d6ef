"""From a decoded image to the pixels that a network sees: resize, crop, augment. Built on timm's transforms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from spectral_vmamba.data.decode import image_to_tensor
from spectral_vmamba.data.posing import DiskTransform, leave_out_border
from spectral_vmamba.data.turning import turn_to_canonical
from spectral_vmamba.data.views import Transform, View
from spectral_vmamba.ops.frames import FRAMES, Frame
from spectral_vmamba.utils.wording import at_least

_MAX_SIZE = 2**13
_INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", "random")


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes a network's input."""

    size: int
    """pixels per side"""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0
    """share of the short side that the center crop keeps"""
    interpolation: str = "bicubic"
    frame: Frame = "none"
    """position into which images are turned before resizing: quarter, so that rounding is the same for all quarter
    turns, or moment, for every angle; that of the network. With upright, the network rotates images itself"""
    borders: bool = True
    """leave out a uniform border around the content, with the frames moment and upright"""

    def __post_init__(self):
        """These values may come from a checkpoint of a stranger."""
        if not 1 <= self.size <= _MAX_SIZE:
            raise ValueError(f"expected images of 1 to {_MAX_SIZE} pixels per side, got {self.size}")
        if not 0.05 <= self.crop <= 2:  # 1/20: the image is enlarged 20 times before it is cropped
            raise ValueError(f"expected a crop of 0.05 to 2, got {self.crop}")
        statistics = (*self.mean, *self.std)
        if len(self.mean) != len(self.std) or not all(-_MAX_SIZE <= value <= _MAX_SIZE for value in statistics):
            raise ValueError(f"expected as many finite means as deviations, got {self.mean} and {self.std}")
        if self.interpolation not in _INTERPOLATIONS:
            names = ", ".join(_INTERPOLATIONS)
            raise ValueError(f"expected an interpolation of {names}, got {self.interpolation[:60]!r}")
        if self.frame not in FRAMES:
            raise ValueError(f"expected a frame of {', '.join(FRAMES)}, got {str(self.frame)[:60]!r}")

    @property
    def leaves_out_borders(self) -> bool:
        return self.borders and self.frame in ("moment", "upright")

    def eval_transform(self) -> Transform:
        if self.frame in ("moment", "upright"):
            return DiskTransform(self.size, self.frame == "moment", min(self.crop, 1.0), self.borders)
        return EvalTransform(self)


class EvalTransform:
    """Resize and center-crop; no randomness."""

    def __init__(self, preprocessing: Preprocessing):
        from timm.data.transforms_factory import create_transform

        self.canonical = preprocessing.frame == "quarter"
        self.transform: Any = create_transform(
            preprocessing.size,
            crop_pct=preprocessing.crop,
            interpolation=preprocessing.interpolation,
            normalize=False,
        )

    def __call__(self, image: Image.Image) -> View:
        quarters = 0
        if self.canonical:
            image, quarters = turn_to_canonical(image)
        return View(self.transform(image), quarters)


@dataclass(frozen=True)
class Augmentation:
    """Random changes to training images; the defaults are the paper's.

    >>> Augmentation(rotation=45, auto_augment="").rotation
    45
    """

    crop_scale: tuple[float, float] = (0.08, 1.0)
    """area of a random crop, as a share of the image's area"""
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """aspect ratio of a random crop, width over height"""
    hflip: float = 0.5
    """probability of a horizontal flip"""
    vflip: float = 0.0
    """probability of a vertical flip"""
    rotation: float = 0.0
    """rotate randomly by up to this many degrees in each direction; 45 covers the circle for networks that are
    invariant to quarter turns"""
    color_jitter: float = 0.4
    """largest relative change of brightness, contrast and saturation; ignored with auto_augment, as in timm"""
    auto_augment: str = "rand-m9-mstd0.5-inc1"
    """timm's name of an AutoAugment or RandAugment policy; empty for none"""
    erasing: float = 0.25
    """probability of erasing a random rectangle"""
    mixup: float = 0.8
    """alpha of mixup; 0 to disable"""
    cutmix: float = 1.0
    """alpha of cutmix; 0 to disable"""
    smoothing: float = 0.1
    """label smoothing"""

    def __post_init__(self):
        for name in ("hflip", "vflip", "erasing", "smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"expected 0 ≤ {name} ≤ 1, got {getattr(self, name)}")
        at_least(0, rotation=self.rotation, color_jitter=self.color_jitter, mixup=self.mixup, cutmix=self.cutmix)

    def train_transform(self, preprocessing: Preprocessing) -> Transform:
        """Crop, flip, rotate and change colors. Draws from the global generators: see `seeding.reseed`."""
        from timm.data.transforms_factory import create_transform

        transforms: Any = create_transform(
            preprocessing.size,
            is_training=True,
            scale=self.crop_scale,
            ratio=self.crop_ratio,
            hflip=self.hflip,
            vflip=self.vflip,
            color_jitter=self.color_jitter or None,  # pyright: ignore[reportArgumentType]
            auto_augment=self.auto_augment or None,
            interpolation=preprocessing.interpolation,
            separate=True,
        )
        crop, colors, _ = transforms
        _limit_posterize(colors)
        border = (leave_out_border,) if preprocessing.leaves_out_borders else ()
        rotation = (RandomRotation(self.rotation),) if self.rotation else ()
        return TrainTransform((*border, crop, *rotation, colors))

    def eraser(self, device: str) -> Callable[[Float[Tensor, "b 3 H W"]], Float[Tensor, "b 3 H W"]]:
        """A function that erases rectangles of normalized batches in place."""
        from timm.data.random_erasing import RandomErasing

        return RandomErasing(self.erasing, mode="pixel", device=device) if self.erasing else lambda images: images


@dataclass(frozen=True)
class TrainTransform:
    steps: tuple[Callable[[Image.Image], Image.Image], ...]

    def __call__(self, image: Image.Image) -> View:
        for step in self.steps:
            image = step(image)
        return View(image_to_tensor(image))


@dataclass(frozen=True)
class RandomRotation:
    degrees: float

    def __call__(self, image: Image.Image) -> Image.Image:
        angle = np.random.uniform(-self.degrees, self.degrees)  # noqa: NPY002 (the global generator, as timm)
        return image.rotate(angle, Image.Resampling.BILINEAR)


def _limit_posterize(transforms: Any) -> None:
    """timm's policies can ask to posterize to 0 bits, which Pillow rejects since version 13."""
    for policy in getattr(transforms, "transforms", ()):
        for operation in getattr(policy, "ops", ()):
            if operation.name.startswith("Posterize"):
                operation.aug_fn = _posterize


def _posterize(image: Image.Image, bits: int, **_: Any) -> Image.Image:
    return ImageOps.posterize(image, min(max(bits, 1), 8))
