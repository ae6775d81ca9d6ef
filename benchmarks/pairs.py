"""Write a pack for a long-range task: two objects far apart in an image, and the class says whether they are the same.

    python -m benchmarks.pairs disks disks.npz     # red or blue disks on noise
    python -m benchmarks.pairs digits digits.npz   # handwritten zeros and ones, of scikit-learn

The objects are on opposite sides of the center, in a random direction, so that a quarter turn of an image is as likely
as the image. No object alone tells the class, and neither does a sum over tokens: a network has to compare the two.
Digits of training pairs are not among those of test pairs.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE, DISTANCE = 32, 10  # pixels: of the image, and from its center to an object
DIGIT, RADIUS = 10, 4
COLORS = np.array([[220, 60, 60], [60, 60, 220]])
IMAGES = {"train": 6000, "test": 1500}
Draw = Callable[[np.random.Generator, np.ndarray, int, float, float], None]


def main(kind: str, output: str) -> None:
    arrays: dict[str, Any] = {"disks": make_disks, "digits": make_digits}[kind](IMAGES)
    np.savez(output, **arrays)


def make_disks(counts: dict[str, int]) -> dict[str, np.ndarray]:
    arrays = {}
    for seed, (part, count) in enumerate(counts.items()):
        generator = np.random.default_rng(seed)
        images = generator.normal(110, 25, (count, SIDE, SIDE, 3))
        arrays[f"y_{part}"] = _draw_pairs(generator, images, _draw_disk)
        arrays[f"x_{part}"] = images.clip(0, 255).astype(np.uint8)
    return arrays


def make_digits(counts: dict[str, int]) -> dict[str, np.ndarray]:
    digits: Any = load_digits()
    shuffled = np.random.default_rng(0).permutation(np.flatnonzero(digits.target < 2))
    members = np.split(shuffled, [4 * len(shuffled) // 5])
    arrays = {}
    for seed, ((part, count), chosen) in enumerate(zip(counts.items(), members, strict=True)):
        of_label = [[_enlarge(digits.images[i]) for i in chosen if digits.target[i] == label] for label in (0, 1)]
        images = np.zeros((count, SIDE, SIDE), np.uint8)
        arrays[f"y_{part}"] = _draw_pairs(np.random.default_rng(seed), images, partial(_draw_digit, of_label))
        arrays[f"x_{part}"] = images
    return arrays


def _draw_pairs(generator: np.random.Generator, images: np.ndarray, draw: Draw) -> np.ndarray:
    """Draw two objects in each image; 1 where they are the same."""
    same = []
    for image in images:
        labels, direction = generator.integers(2, size=2), generator.uniform(0, 2 * np.pi)
        for label, sign in zip(labels, (1, -1), strict=True):
            y, x = ((SIDE - 1) / 2 + sign * DISTANCE * part for part in (np.sin(direction), np.cos(direction)))
            draw(generator, image, int(label), y, x)
        same.append(int(labels[0] == labels[1]))
    return np.array(same)


def _draw_disk(generator: np.random.Generator, image: np.ndarray, label: int, y: float, x: float) -> None:
    rows, columns = np.mgrid[:SIDE, :SIDE]
    inside = (rows - y) ** 2 + (columns - x) ** 2 <= RADIUS**2
    image[inside] = COLORS[label] + generator.normal(0, 15, (inside.sum(), 3))


def _draw_digit(
    of_label: list[list[np.ndarray]],
    generator: np.random.Generator,
    image: np.ndarray,
    label: int,
    y: float,
    x: float,
) -> None:
    row, column = (round(center - (DIGIT - 1) / 2) for center in (y, x))
    digit = of_label[label][generator.integers(len(of_label[label]))]
    image[row : row + DIGIT, column : column + DIGIT] = digit


def _enlarge(image: np.ndarray) -> np.ndarray:
    pixels = Image.fromarray((image * 255 / 16).round().astype(np.uint8))
    return np.asarray(pixels.resize((DIGIT, DIGIT), Image.Resampling.BILINEAR))


if __name__ == "__main__":
    main(*sys.argv[1:])
