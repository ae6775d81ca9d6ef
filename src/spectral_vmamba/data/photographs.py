"""Photographs that ship with scikit-image and scikit-learn: real data without a download."""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from spectral_vmamba.data.decode import resize
from spectral_vmamba.utils.extras import require

_SCIKIT_IMAGE = (
    "astronaut",
    "brick",
    "camera",
    "cell",
    "chelsea",
    "clock",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "hubble_deep_field",
    "immunohistochemistry",
    "moon",
    "page",
    "retina",
    "rocket",
)


def photographs() -> dict[str, UInt8[Tensor, "3 H W"]]:
    """Name → RGB image: everyday scenes, textures, microscopy, astronomy, scanned text."""
    skimage_data = require("skimage.data", "demo")
    sklearn_data = require("sklearn.datasets", "demo")
    images = {name: getattr(skimage_data, name)() for name in _SCIKIT_IMAGE}
    images |= {name: sklearn_data.load_sample_image(f"{name}.jpg") for name in ("china", "flower")}
    return {name: _rgb(image) for name, image in images.items()}


def photograph_crops(count: int, size: int | tuple[int, int], seed: int = 0) -> UInt8[Tensor, "b 3 H W"]:
    """Seeded random crops, cycling through the photographs; photographs smaller than the crop are enlarged."""
    height, width = (size, size) if isinstance(size, int) else size
    generator = np.random.default_rng(seed)
    images = list(photographs().values())
    crops = []
    for i in range(count):
        image = images[i % len(images)]
        if image.shape[1] < height or image.shape[2] < width:
            enlarge = max(height / image.shape[1], width / image.shape[2])
            short_side = int(np.ceil(min(image.shape[1:]) * enlarge))
            image = resize(image[None], short_side)[0].round().to(torch.uint8)
        top = generator.integers(image.shape[1] - height + 1)
        left = generator.integers(image.shape[2] - width + 1)
        crops.append(image[:, top : top + height, left : left + width])
    return torch.stack(crops)


def _rgb(image: np.ndarray) -> UInt8[Tensor, "3 H W"]:
    if image.ndim == 2:
        image = np.repeat(image[..., None], 3, axis=2)
    return torch.from_numpy(np.array(image[..., :3], dtype=np.uint8)).permute(2, 0, 1)
