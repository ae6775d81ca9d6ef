"""Image files for tests: crops of real photographs, and images of one color, in class folders."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data import photograph_crops


def write_photographs(folder: Path, count: int, size: int | tuple[int, int] = 128, quarters: int = 0) -> list[Path]:
    """Write crops of photographs, turned by `quarters` quarter turns, alternately into two class folders."""
    paths = []
    for i, crop in enumerate(photograph_crops(count, size)):
        path = folder / ("even" if i % 2 == 0 else "odd") / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.rot90(crop.permute(1, 2, 0).numpy(), quarters)
        Image.fromarray(np.ascontiguousarray(pixels)).save(path)
        paths.append(path)
    return paths


def gray_image(shade: int, size: int = 8) -> Image.Image:
    return Image.fromarray(np.full((size, size, 3), shade, np.uint8))


def png_bytes(shade: int) -> bytes:
    """The file of a gray image."""
    stream = BytesIO()
    gray_image(shade).save(stream, "PNG")
    return stream.getvalue()


def write_class_folders(root: Path, counts: Mapping[str, int], first_shade: int = 0) -> None:
    """Write `counts[name]` gray images per class; image i of each class has the shade `first_shade + i`."""
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for i in range(count):
            gray_image(first_shade + i).save(root / name / f"{i}.png")


def write_noise(folder: Path, classes: tuple[str, ...] = ("a", "b"), count: int = 20) -> None:
    """Write `count` images of 16 × 16 random pixels per class."""
    generator = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(generator.integers(0, 255, (16, 16, 3), np.uint8)).save(folder / name / f"{i}.png")
