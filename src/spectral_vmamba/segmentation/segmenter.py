"""A trained segmentation network with everything needed to use it: `load_segmenter(checkpoint).segment(image)`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from spectral_vmamba.data.decode import ImageLike, image_to_tensor, normalize, to_pil
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointHeader,
    WeightChoice,
    find_checkpoint,
    load_checkpoint,
)
from spectral_vmamba.inference.model_options import without_initial_weights
from spectral_vmamba.inference.network import build_with_weights
from spectral_vmamba.segmentation.model import SegmentationModel, build_segmenter
from spectral_vmamba.segmentation.windows import blend_windows, softmax
from spectral_vmamba.utils.devices import resolve_device

_OVERLAP = 4  # windows overlap by a quarter of their size


@dataclass(frozen=True, eq=False)
class SegmentedImage:
    """A class for every pixel: indices into `classes`."""

    mask: UInt8[np.ndarray, "h w"]
    classes: tuple[str, ...]

    def shares(self) -> dict[str, float]:
        """The share of the area that each class has."""
        counts = np.bincount(self.mask.ravel(), minlength=len(self.classes))
        return {name: float(count / self.mask.size) for name, count in zip(self.classes, counts, strict=True)}


@dataclass(frozen=True, eq=False)
class Segmenter:
    """A segmentation network, its classes and their colors; `header` is that of its checkpoint, if it has one.

    Images with sides of up to `window` pixels are seen as a whole, larger ones in overlapping windows of that size.
    """

    name: str
    model: SegmentationModel
    classes: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...]
    preprocessing: Preprocessing
    window: int
    device: torch.device
    header: CheckpointHeader | None = None

    def segment(self, images: ImageLike | Sequence[ImageLike]) -> list[SegmentedImage]:
        """Segment one or several images of any size: paths, bytes of files, PIL images, arrays (h, w, 3) or tensors
        (3, h, w) of uint8. Raises ValueError if one cannot be read."""
        several: list[Any] = list(images) if isinstance(images, (list, tuple)) else [images]
        return [SegmentedImage(self.mask(image_to_tensor(to_pil(image))).numpy(), self.classes) for image in several]

    def mask(self, image: UInt8[Tensor, "3 h w"]) -> UInt8[Tensor, "h w"]:
        """The class of every pixel."""
        strips = [strip.argmax(0).to(torch.uint8) for strip in self._strips(image)]  # not the probabilities of all rows
        return torch.cat(strips)

    def probabilities(self, image: UInt8[Tensor, "3 h w"]) -> Float[Tensor, "classes h w"]:
        """The probability of every class for every pixel."""
        return torch.cat(list(self._strips(image)), dim=1)

    def _strips(self, image: UInt8[Tensor, "3 h w"]) -> Iterator[Float[Tensor, "classes rows w"]]:
        """The probabilities of the rows, from top to bottom, some rows at a time."""
        height, width = image.shape[-2:]
        if max(height, width) <= self.window:
            yield torch.from_numpy(softmax(self.scores(image[None])[0]))
            return

        def read(top: int, left: int, rows: int, columns: int) -> Tensor:
            return image[:, top : top + rows, left : left + columns]

        strips = blend_windows(read, height, width, self.window, self.window // _OVERLAP, self.scores, batch_size=1)
        yield from (strip for _, strip in strips)

    @torch.inference_mode()
    def scores(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes h w"]:
        """The network's scores, before the softmax, of images of one size as a whole.

        Every image passes the network by itself: convolutions round differently for other batch sizes, and the mask of
        an image must not depend on other images.
        """
        pixels = normalize(images.to(self.device), self.preprocessing.mean, self.preprocessing.std)
        return torch.cat([self.model(image) for image in pixels.split(1)]).float().cpu()


def load_segmenter(path: str | Path, weights: WeightChoice = "best", device: str = "auto") -> Segmenter:
    """Load a segmentation network from the folder of a run or from a checkpoint file. Requires the extra `segment`."""
    checkpoint = load_checkpoint(find_checkpoint(path))
    return make_segmenter(checkpoint, weights, device)


def make_segmenter(checkpoint: Checkpoint, weights: WeightChoice, device: str) -> Segmenter:
    header = checkpoint.header
    masks = header.masks
    if masks is None:
        raise CheckpointError(
            f"{checkpoint.path} contains a classifier; use `spectral-vmamba predict`, or spectral_vmamba.load"
        )
    options = without_initial_weights(header.model, header.model_options)
    model: Any = build_with_weights(
        checkpoint, weights, lambda: build_segmenter(header.model, options, masks.decoder, len(header.classes))
    )
    chosen = resolve_device(device)
    return Segmenter(
        str(checkpoint.path),
        model.eval().to(chosen),
        header.classes,
        masks.palette,
        header.preprocessing,
        masks.window,
        chosen,
        header,
    )
