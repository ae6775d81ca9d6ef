"""Views whose features can be cached: each depends on the image's content and a number alone."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from jaxtyping import Shaped
from PIL import Image
from torch import Tensor

from spectral_vmamba.data.loader import numbered_view
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.data.views import Transform
from spectral_vmamba.ops.turns import UPRIGHT, Rotation, rotate_pixels

KEY_BYTES = 16
_EVAL = "eval"
# Settings of an augmentation that do not change the pixels of a view.
_AFTER_PIXELS = ("erasing", "mixup", "cutmix", "smoothing")


@dataclass(frozen=True)
class ViewSet:
    """One or more views of each image.

    A view's name describes how it is made and distinguishes it from all other views of the same image. `render` returns
    the pixels, 0 to 255, of some views from the image, the digest of its content and the views' numbers.
    """

    names: tuple[str, ...]
    render: Callable[[Image.Image, bytes, Sequence[int]], list[Shaped[Tensor, "3 H W"]]]

    def keys(self, digest: bytes) -> list[bytes]:
        return [sha256(digest + name.encode()).digest()[:KEY_BYTES] for name in self.names]


def eval_view(preprocessing: Preprocessing) -> ViewSet:
    """The one view that a network is evaluated on."""
    return ViewSet((_EVAL,), _EvalView(preprocessing.eval_transform()))


def augmented_views(augment: Augmentation, preprocessing: Preprocessing, count: int) -> ViewSet:
    """The `count` views that training shows: see `data.loader.numbered_view`."""
    settings = {name: _canonical_number(value) for name, value in asdict(augment).items() if name not in _AFTER_PIXELS}
    names = (f"augmented {json.dumps(settings, sort_keys=True)} {number}" for number in range(count))
    return ViewSet(tuple(names), _AugmentedView(augment.train_transform(preprocessing)))


def rotated_views(preprocessing: Preprocessing, rotations: Sequence[Rotation]) -> ViewSet:
    """The evaluation view rotated as `metrics.rotation` does; `UPRIGHT` is the evaluation view itself."""
    names = tuple(
        _EVAL if rotation == UPRIGHT else f"rotated {float(rotation.angle)!r} {rotation.fill}" for rotation in rotations
    )
    return ViewSet(names, _RotatedView(preprocessing.eval_transform(), tuple(rotations)))


def _canonical_number(value: Any) -> Any:
    """Write 45 and 45.0 the same way."""
    if isinstance(value, (tuple, list)):
        return [_canonical_number(each) for each in value]
    return float(value) if isinstance(value, int) else value


@dataclass(frozen=True)
class _EvalView:
    transform: Transform

    def __call__(self, image: Image.Image, digest: bytes, numbers: Sequence[int]) -> list[Tensor]:
        return [self.transform(image).pixels for _ in numbers]


@dataclass(frozen=True)
class _AugmentedView:
    transform: Transform

    def __call__(self, image: Image.Image, digest: bytes, numbers: Sequence[int]) -> list[Tensor]:
        return [numbered_view(self.transform, image, digest, number).pixels for number in numbers]


@dataclass(frozen=True)
class _RotatedView:
    transform: Transform
    rotations: tuple[Rotation, ...]

    def __call__(self, image: Image.Image, digest: bytes, numbers: Sequence[int]) -> list[Tensor]:
        upright = self.transform(image).pixels[None]
        return [rotate_pixels(upright, *self.rotations[number])[0] for number in numbers]
