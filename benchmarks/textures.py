"""Write a pack of surfaces: small crops of photographs of scikit-image, and the class says of which.

    python -m benchmarks.textures textures.npz

Crops are gray, in random quarter turns, and have the same mean and contrast: only the texture tells the class. Training
crops are of the left part of each photograph, test crops of the right part.
"""

import sys
from typing import Any

import numpy as np
from PIL import Image
from skimage import data
from skimage.color import rgb2gray

SURFACES = ("brick", "grass", "gravel", "moon", "immunohistochemistry")
CROP, SIDE = 24, 32  # pixels: of a crop, and of its image
TRAINING_SHARE = 0.6  # of the width
IMAGES = {"train": 600, "test": 200}  # of each class
MEAN, CONTRAST = 128, 45


def main(output: str) -> None:
    arrays: dict[str, Any] = make_textures(IMAGES)
    np.savez(output, **arrays)


def make_textures(counts: dict[str, int]) -> dict[str, np.ndarray]:
    photographs = [_as_gray(getattr(data, name)()) for name in SURFACES]
    arrays = {"classes": np.array(SURFACES)}
    for seed, (part, count) in enumerate(counts.items()):
        generator = np.random.default_rng(seed)
        crops = [_crop(generator, _part(photograph, part)) for photograph in photographs for _ in range(count)]
        arrays[f"x_{part}"] = np.stack(crops)
        arrays[f"y_{part}"] = np.repeat(np.arange(len(SURFACES)), count)
    return arrays


def _as_gray(photograph: np.ndarray) -> np.ndarray:
    return photograph / 255 if photograph.ndim == 2 else rgb2gray(photograph)


def _part(photograph: np.ndarray, part: str) -> np.ndarray:
    column = round(TRAINING_SHARE * photograph.shape[1])
    return photograph[:, :column] if part == "train" else photograph[:, column:]


def _crop(generator: np.random.Generator, photograph: np.ndarray) -> np.ndarray:
    y, x = (generator.integers(side - CROP + 1) for side in photograph.shape)
    crop = np.rot90(photograph[y : y + CROP, x : x + CROP], int(generator.integers(4)))
    level = (crop - crop.mean()) / max(crop.std(), 1e-3) * CONTRAST + MEAN
    pixels = Image.fromarray(level.clip(0, 255).round().astype(np.uint8))
    return np.asarray(pixels.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


if __name__ == "__main__":
    main(*sys.argv[1:])
