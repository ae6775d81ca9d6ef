"""ImageDataset as the network sees them, with what is to be told about them; broken ones with their reason."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from spectral_vmamba.data.collection import Collection
from spectral_vmamba.data.loader import one_thread
from spectral_vmamba.data.transforms import Preprocessing, canonical_image


@dataclass(frozen=True)
class Seen:
    """`quarters`: how far the image was turned before it became pixels."""

    pixels: UInt8[Tensor, "3 H W"]
    width: int
    height: int
    quarters: int


@dataclass(frozen=True)
class Broken:
    reason: str


class Eye:
    def __init__(self, preprocessing: Preprocessing):
        self.canonical = preprocessing.canonical
        self.view = replace(preprocessing, canonical=False).pixels()

    def __call__(self, image: Image.Image) -> Seen:
        turned, quarters = _canonical(image) if self.canonical else (image, 0)
        return Seen(self.view(turned), image.width, image.height, quarters)


def _canonical(image: Image.Image) -> tuple[Image.Image, int]:
    turned = canonical_image(image)
    given, wanted = np.asarray(image), np.asarray(turned)
    return turned, next(q for q in range(4) if np.array_equal(np.rot90(given, q), wanted))


class _Readings(Dataset):
    def __init__(self, collection: Collection, preprocessing: Preprocessing):
        self.collection, self.eye = collection, Eye(preprocessing)

    def __getitem__(self, i: int) -> Seen | Broken:
        try:
            return self.eye(self.collection.opener(i))
        except (ValueError, OSError) as error:
            return Broken(" ".join(str(error).split()))


def readings(
    collection: Collection, preprocessing: Preprocessing, batches: list[range], workers: int
) -> Iterable[list[Seen | Broken]]:
    """The batches one after the other, prepared by so many processes ahead of time (0: by this one, when asked)."""
    return DataLoader(
        _Readings(collection, preprocessing),
        batch_sampler=batches,  # pyright: ignore[reportArgumentType]
        num_workers=workers,
        collate_fn=list,
        worker_init_fn=one_thread,
    )
