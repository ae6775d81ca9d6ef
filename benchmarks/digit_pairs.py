"""Write a pack for a long-range task: two digits far apart on a canvas, and the class says whether they are the same.

    python -m benchmarks.digit_pairs digit_pairs.npz

From the digits of scikit-learn. Digits of training pairs are not among those of test pairs. Half of the pairs are of
the same digit. The digits are on opposite sides of the center, in a random direction, so that a quarter turn of a pair
is as likely as the pair.
"""

import sys

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

SIDE, DIGIT, DISTANCE = 128, 32, 38  # pixels: of the canvas, of a digit, and from the center of the canvas to a digit
CLASSES = 3
PAIRS = {"train": 6000, "test": 1500}


def main(output: str) -> None:
    np.savez(output, **make_pack(PAIRS))


def make_pack(pairs: dict[str, int]) -> dict[str, np.ndarray]:
    digits = load_digits()
    keep = digits.target < CLASSES
    images = [_enlarge(image) for image in digits.images[keep]]
    labels = digits.target[keep]
    generator = np.random.default_rng(0)
    shuffled = generator.permutation(len(images))
    parts = {"train": shuffled[: 4 * len(images) // 5], "test": shuffled[4 * len(images) // 5 :]}
    arrays = {}
    for part, indices in parts.items():
        drawn = [draw_pair(generator, images, labels, indices) for _ in range(pairs[part])]
        arrays[f"x_{part}"] = np.stack([canvas for canvas, _ in drawn])
        arrays[f"y_{part}"] = np.array([same for _, same in drawn])
    return arrays


def _enlarge(image: np.ndarray) -> np.ndarray:
    pixels = Image.fromarray((image * 255 / 16).round().astype(np.uint8))
    return np.asarray(pixels.resize((DIGIT, DIGIT), Image.Resampling.BILINEAR))


def draw_pair(
    generator: np.random.Generator, images: list[np.ndarray], labels: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, int]:
    """Return a canvas, and 1 if its digits are the same."""
    same = int(generator.integers(2))
    first = generator.choice(indices)
    others = indices[(labels[indices] == labels[first]) == bool(same)]
    direction = generator.uniform(0, 2 * np.pi)
    canvas = np.zeros((SIDE, SIDE), np.uint8)
    for index, sign in ((first, 1), (generator.choice(others), -1)):
        row, column = (
            round(SIDE / 2 + sign * DISTANCE * part - DIGIT / 2) for part in (np.sin(direction), np.cos(direction))
        )
        canvas[row : row + DIGIT, column : column + DIGIT] = images[index]
    return canvas, same


if __name__ == "__main__":
    main(*sys.argv[1:])
