"""Images with masks for tests: files of random pixels, and packs of them."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation.masked_dataset import MaskedDataset
from spectral_vmamba.segmentation.readers import read_masked_source


def random_image(seed: int, width: int = 12, height: int = 10) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def random_mask(seed: int, classes: int = 3, width: int = 12, height: int = 10) -> np.ndarray:
    """Every class occurs."""
    mask = np.random.default_rng(seed).integers(0, classes, (height, width), np.uint8)
    mask.ravel()[:classes] = np.arange(classes)
    return mask


def encode(image: Image.Image | np.ndarray, kind: str = "PNG", **options) -> bytes:
    stream = BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, kind, **options)
    return stream.getvalue()


def write_image(path: Path, image: Image.Image | np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path)


def write_pairs(
    images: Path, masks: Path, names: Iterable[str] = ("a", "b", "c"), classes: int = 3, image_suffix: str = ".png"
) -> None:
    """Pair i has the seed i."""
    for seed, name in enumerate(names):
        write_image(images / f"{name}{image_suffix}", random_image(seed))
        write_image(masks / f"{name}.png", random_mask(seed, classes))


def read_folder(folder: Path, count: int = 3, classes: int = 3) -> MaskedDataset:
    """A dataset of `count` pairs that are written to the folder."""
    write_pairs(folder / "images", folder / "masks", [f"{i:02d}" for i in range(count)], classes)
    return read_masked_source(str(folder))["all"]


def write_pack(path: Path, images: list[bytes], masks: list[bytes], **arrays) -> None:
    packed = {}
    for prefix, files in (("", images), ("mask_", masks)):
        packed[f"{prefix}data"] = np.frombuffer(b"".join(files), np.uint8)
        packed[f"{prefix}offset"] = np.cumsum([0, *map(len, files)])
    np.savez(path, **packed, **arrays)


def shared_pack(name: str) -> Path:
    """A pack of real images; skips the test where it is absent."""
    path = Path(__file__).parents[3] / "shared" / "datasets" / name
    if not path.exists():
        pytest.skip(f"needs {name} in a folder shared/datasets beside the repository")
    return path
