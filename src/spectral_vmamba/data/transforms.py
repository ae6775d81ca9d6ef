"""What a network sees of a image: resized, cropped, perhaps augmented, as a tensor. From timm's transforms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps
from torch import Tensor

from spectral_vmamba.data.decode import as_tensor

Color = tuple[float, ...]


@dataclass(frozen=True)
class Preprocessing:
    """How images become input: the short side resized so that the middle `crop` of it is `size`; values normalized by
    `mean` and `std`. With `canonical`, images are first turned to the same quarter turn whichever way they came, so
    that even the rounding of resizing cannot tell turns apart: for networks that cannot either."""

    size: int
    mean: Color
    std: Color
    crop: float = 1.0
    interpolation: str = "bicubic"
    canonical: bool = False

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Preprocessing":
        """From `dataclasses.asdict`, also after a journey through JSON."""
        return cls(**{**stored, "mean": tuple(stored["mean"]), "std": tuple(stored["std"])})

    def pixels(self) -> "PixelView":
        return PixelView(self)


class PixelView:
    """ImageLike → what the network sees of it, still 0 to 255."""

    def __init__(self, preprocessing: Preprocessing):
        from timm.data.transforms_factory import create_transform

        self.preprocessing = preprocessing
        self.transform: Any = create_transform(
            preprocessing.size,
            crop_pct=preprocessing.crop,
            interpolation=preprocessing.interpolation,
            normalize=False,
        )

    def __call__(self, image: Image.Image) -> Tensor:
        if self.preprocessing.canonical:
            image = canonical_image(image)
        return self.transform(image)


def canonical_image(image: Image.Image) -> Image.Image:
    """The quarter turn of a image whose pixels, read in order, are largest; landscape before portrait."""
    pixels = np.asarray(image)
    turns = [np.ascontiguousarray(np.rot90(pixels, quarters)) for quarters in range(4)]
    widest = max(turn.shape[1] for turn in turns)
    return Image.fromarray(max((turn for turn in turns if turn.shape[1] == widest), key=np.ndarray.tobytes))


@dataclass(frozen=True)
class Augmentation:
    """Random changes to training images, the paper's unless said otherwise."""

    crop_scale: tuple[float, float] = (0.08, 1.0)
    """area of a random crop, as shares of the image's"""
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """width to height of a random crop"""
    hflip: float = 0.5
    """chance of a left-right flip"""
    vflip: float = 0.0
    """chance of an upside-down flip"""
    turn: float = 0.0
    """random turns of up to so many degrees either way; 45 covers the circle where quarter turns change nothing"""
    color_jitter: float = 0.4
    """brightness, contrast and saturation change by up to this share (not used beside auto_augment, as in timm)"""
    auto_augment: str = "rand-m9-mstd0.5-inc1"
    """timm's name of an automatic augmentation; empty for none"""
    erasing: float = 0.25
    """chance that a random rectangle is erased"""
    mixup: float = 0.8
    """alpha of mixup; 0 for none"""
    cutmix: float = 1.0
    """alpha of cutmix; 0 for none"""
    smoothing: float = 0.1
    """label smoothing"""

    def view(self, preprocessing: Preprocessing) -> Callable[[Image.Image], UInt8[Tensor, "3 H W"]]:
        """ImageLike → augmented pixels. Draws from the shared generators: see `randomness.reseed`."""
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
        _keep_one_bit(colors)
        turn = RandomTurn(self.turn) if self.turn else None
        return Steps(tuple(step for step in (crop, turn, colors, as_tensor) if step is not None))

    def eraser(self, device: str) -> Callable[[Float[Tensor, "b 3 H W"]], Float[Tensor, "b 3 H W"]]:
        """Erases rectangles of normalized batches, in place."""
        from timm.data.random_erasing import RandomErasing

        return RandomErasing(self.erasing, mode="pixel", device=device) if self.erasing else lambda images: images


def _keep_one_bit(transforms: Any) -> None:
    """timm's random augmentations can ask for a posterization to 0 bits, which Pillow refuses since version 13."""
    for automatic in getattr(transforms, "transforms", ()):
        for operation in getattr(automatic, "ops", ()):
            if operation.name.startswith("Posterize"):
                operation.aug_fn = _posterized


def _posterized(image: Image.Image, bits: int, **_: Any) -> Image.Image:
    return ImageOps.posterize(image, min(max(bits, 1), 8))


@dataclass(frozen=True)
class RandomTurn:
    degrees: float

    def __call__(self, image: Image.Image) -> Image.Image:
        angle = np.random.uniform(-self.degrees, self.degrees)  # noqa: NPY002 (the shared generator, as timm)
        return image.rotate(angle, Image.Resampling.BILINEAR)


@dataclass(frozen=True)
class Steps:
    steps: tuple[Callable, ...]

    def __call__(self, image: Image.Image) -> Tensor:
        for step in self.steps:
            image = step(image)
        return image  # pyright: ignore[reportReturnType]
