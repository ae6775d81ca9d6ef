"""Views of images whose features can be kept: each follows from the image's content and a number."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from jaxtyping import Shaped
from PIL import Image
from torch import Tensor

from spectral_vmamba.data.loader import View, numbered_view
from spectral_vmamba.data.transforms import Augmentation, PixelView, Preprocessing
from spectral_vmamba.metrics.rotation import Fill, turned_pixels

KEY_BYTES = 16


@dataclass(frozen=True)
class Views:
    """Some views of every image. `see` gives the pixels, 0 to 255, of one of them, from the image, the digest of
    its content and the view's number; its name says how, and tells it from all other views of the same image."""

    names: tuple[str, ...]
    see: Callable[[Image.Image, bytes, int], Shaped[Tensor, "3 H W"]]

    def keys(self, digest: bytes) -> list[bytes]:
        return [sha256(digest + name.encode()).digest()[:KEY_BYTES] for name in self.names]


def plain_view(preprocessing: Preprocessing) -> Views:
    """The one view that a network is evaluated on."""
    return Views(("plain",), _Plain(preprocessing.pixels()))


def augmented_views(augment: Augmentation, preprocessing: Preprocessing, count: int) -> Views:
    """The views that training with so many shows: see `data.loading.numbered_view`."""
    pixels = {name: _plainly(value) for name, value in asdict(augment).items() if name not in _NOT_OF_PIXELS}
    names = (f"augmented {json.dumps(pixels, sort_keys=True)} {number}" for number in range(count))
    return Views(tuple(names), _Augmented(augment.view(preprocessing)))


def turned_views(preprocessing: Preprocessing, angles: Sequence[float], fill: Fill) -> Views:
    """The plain view turned by each of the angles, as `measure_sweep` does."""
    names = tuple(f"turned {float(angle)!r} {fill}" for angle in angles)
    return Views(names, _Turned(preprocessing.pixels(), tuple(angles), fill))


def _plainly(value: Any) -> Any:
    """45 and 45.0 are the same setting."""
    if isinstance(value, (tuple, list)):
        return [_plainly(each) for each in value]
    return float(value) if isinstance(value, int) else value


_NOT_OF_PIXELS = ("erasing", "mixup", "cutmix", "smoothing")


@dataclass(frozen=True)
class _Augmented:
    view: View

    def __call__(self, image: Image.Image, digest: bytes, number: int) -> Tensor:
        return numbered_view(self.view, image, digest, number)


@dataclass(frozen=True)
class _Plain:
    view: PixelView

    def __call__(self, image: Image.Image, digest: bytes, number: int) -> Tensor:
        return self.view(image)


@dataclass(frozen=True)
class _Turned:
    view: PixelView
    angles: tuple[float, ...]
    fill: Fill

    def __call__(self, image: Image.Image, digest: bytes, number: int) -> Tensor:
        return turned_pixels(self.view(image)[None], self.angles[number], self.fill)[0]
