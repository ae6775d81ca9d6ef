"""Real photographs that ship inside scikit-image and scikit-learn, so that nothing has to be downloaded."""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from spectral_vmamba.data.images import resize

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
    """Name → RGB picture: everyday scenes, textures, microscopy, astronomy, scanned text."""
    try:
        from skimage import data as skimage_data
        from sklearn.datasets import load_sample_image
    except ImportError as error:
        raise ImportError(f"{error.name} brings the photographs; pip install 'spectral-vmamba[demo]'") from error
    pictures = {name: getattr(skimage_data, name)() for name in _SCIKIT_IMAGE}
    pictures |= {name: load_sample_image(f"{name}.jpg") for name in ("china", "flower")}
    return {name: _rgb(picture) for name, picture in pictures.items()}


def photograph_crops(count: int, size: int | tuple[int, int], seed: int = 0) -> UInt8[Tensor, "b 3 H W"]:
    """Seeded windows out of the photographs, each photograph in turn; small ones are enlarged to fit."""
    height, width = (size, size) if isinstance(size, int) else size
    generator = np.random.default_rng(seed)
    pictures = list(photographs().values())
    crops = []
    for i in range(count):
        picture = pictures[i % len(pictures)]
        if picture.shape[1] < height or picture.shape[2] < width:
            enlarge = max(height / picture.shape[1], width / picture.shape[2])
            short_side = int(np.ceil(min(picture.shape[1:]) * enlarge))
            picture = resize(picture[None], short_side)[0].round().to(torch.uint8)
        top = generator.integers(picture.shape[1] - height + 1)
        left = generator.integers(picture.shape[2] - width + 1)
        crops.append(picture[:, top : top + height, left : left + width])
    return torch.stack(crops)


def _rgb(picture: np.ndarray) -> UInt8[Tensor, "3 H W"]:
    if picture.ndim == 2:
        picture = np.repeat(picture[..., None], 3, axis=2)
    return torch.from_numpy(np.array(picture[..., :3], dtype=np.uint8)).permute(2, 0, 1)
