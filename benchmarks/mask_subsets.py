"""Images with masks as a pack of their own, so that runs validate on fewer images."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.segmentation.masked_dataset import MaskedDataset


def write_pairs(path: Path, dataset: MaskedDataset) -> Path:
    """Write images with masks as a pack of PNG files, in the layout of `read_masked_source`."""
    pairs = [dataset.open(i) for i in range(len(dataset))]
    arrays: dict[str, np.ndarray] = {"classes": np.array(dataset.classes), "ignore": np.array([dataset.ignore_index])}
    for name, images in (("", [image for image, _ in pairs]), ("mask_", [Image.fromarray(mask) for _, mask in pairs])):
        files = [_png(image) for image in images]
        arrays[f"{name}data"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{name}offset"] = np.cumsum([0, *map(len, files)])
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    return path


def _png(image: Image.Image) -> bytes:
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
