"""Windows of real photographs as files, in folders of classes."""

from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data import photograph_crops


def write_photographs(folder: Path, count: int, size: int | tuple[int, int] = 128, quarters: int = 0) -> list[Path]:
    """Each turned by so many quarter turns; two classes, one folder each."""
    paths = []
    for i, crop in enumerate(photograph_crops(count, size)):
        path = folder / ("even" if i % 2 == 0 else "odd") / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.rot90(crop.permute(1, 2, 0).numpy(), quarters)
        Image.fromarray(np.ascontiguousarray(pixels)).save(path)
        paths.append(path)
    return paths
