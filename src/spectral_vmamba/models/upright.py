"""The frame "upright": the rotation that a score, learned from upright training images, prefers."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.frames import Pose, brightness_direction, quarter_frame, rotate_further
from spectral_vmamba.ops.tracing import may_branch
from spectral_vmamba.ops.turns import mask_outside_disk, rotate_each

Stem = Callable[[Float[Tensor, "b c H W"]], Float[Tensor, "b d h w"]]

TURNS = 12  # copies of an image that are scored; the scores between them are interpolated
CELLS = 4  # the score sees the stem's map averaged over 4 × 4 regions: where things are, roughly


class UprightScore(nn.Module):
    """How upright an image is: a linear score of the stem's map. Not trained with the network, but fitted before.

    Its weights are NaN until they are fitted (`training.fit_upright`) or loaded.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels, CELLS, CELLS), torch.nan), requires_grad=False)

    @property
    def is_fitted(self) -> bool:
        return not self.weight.isnan().any()

    def rotations(self, images: Float[Tensor, "b c H W"], stem: Stem) -> Float[Tensor, "b 2"]:
        """The rotation, cosine and sine, that puts each image upright. Equal images are scored once."""
        if not may_branch(images):
            return self._rotations(images, stem)
        distinct, places = torch.unique(images, dim=0, return_inverse=True)
        return self._rotations(distinct, stem)[places]

    def _rotations(self, images: Float[Tensor, "b c H W"], stem: Stem) -> Float[Tensor, "b 2"]:
        first = first_rotations(images)
        return best_rotations(self.scores(images, first, stem), first)

    @torch.no_grad()
    def scores(self, images: Float[Tensor, "b c H W"], first: Float[Tensor, "b 2"], stem: Stem) -> Float[Tensor, "b k"]:
        """The scores of rotated copies of each image, in equal steps from its `first` rotation. ValueError if the score
        was not fitted.

        On a CPU each image passes the stem by itself: convolutions round differently for other batch sizes, and the
        rotation of an image must not depend on the other images.
        """
        compiling = torch.compiler.is_compiling()
        if not compiling and not self.weight.is_meta and not self.is_fitted:
            raise ValueError("the frame upright has not been learned yet: train the network, or load a checkpoint")
        together = compiling or images.device.type != "cpu"
        groups = [(images, first)] if together else zip(images.split(1), first.split(1), strict=True)
        with _full_precision(images.device.type):  # the same rotation with and without mixed precision
            return torch.cat([(score_inputs(*each, stem) * self.weight).flatten(2).sum(2) for each in groups])


def upright_frame(
    images: Float[Tensor, "b c h w"], score: UprightScore, stem: Stem
) -> tuple[Float[Tensor, "b c h2 w2"], Pose]:
    """Rotate each image as its score prefers; what is outside the inscribed disk is set to zero.

    The quarter frame comes first, so that all quarter turns of an image give the same bits.
    """
    turned, pose = quarter_frame(mask_outside_disk(images))
    return rotate_further(turned, pose, score.rotations(turned, stem))


def first_rotations(images: Float[Tensor, "b c H W"]) -> Float[Tensor, "b 2"]:
    """Where the copies of each image begin: in the frame "moment", so that a turned image has the same copies.

    Half a step further: an image in this frame is sharper without a rotation than the other copies would be.
    """
    half_step = directions(torch.full((images.shape[0],), 180.0 / TURNS, device=images.device))
    return compose(brightness_direction(images).flip(1), half_step)


def score_inputs(
    images: Float[Tensor, "b c H W"], first: Float[Tensor, "b 2"], stem: Stem
) -> Float[Tensor, "b k d 4 4"]:
    """What the score sees of images: the stem's maps of rotated copies, in equal steps from a rotation of each image.

    The maps are averaged over regions and with their mirror images: a mirrored image is as upright as the image.
    """
    images = mask_outside_disk(_center_square(images))
    steps = directions(torch.arange(TURNS, device=images.device) * (360.0 / TURNS))
    rotations = compose(first[:, None], steps).flatten(0, 1)
    # Not blurred: on Imagenette, blurred copies put 66 % of 400 images within 10° of upright, these 69 %.
    copies = mask_outside_disk(rotate_each(images.repeat_interleave(TURNS, 0), rotations))
    regions = F.adaptive_avg_pool2d(stem(copies), CELLS)
    return ((regions + regions.flip(-1)) / 2).unflatten(0, (-1, TURNS))


def best_rotations(scores: Float[Tensor, "b k"], first: Float[Tensor, "b 2"]) -> Float[Tensor, "b 2"]:
    """The rotation with the highest score, in whole degrees from the first: trigonometric interpolation of the scores
    of an even number of equal steps."""
    turns, dtype = scores.shape[1], torch.promote_types(scores.dtype, torch.float32)
    degrees, steps, waves = (
        torch.arange(count, dtype=dtype, device=scores.device) for count in (360, turns, turns // 2 + 1)
    )
    between = torch.deg2rad(degrees[:, None] - steps * (360 / turns))
    kernel = torch.cos(waves[:, None, None] * between)
    kernel[[0, -1]] /= 2  # the constant, and the highest frequency, which has no sine
    # Not a product of matrices, which mixed precision would round.
    best = (scores.to(dtype)[:, None] * kernel.sum(0)).sum(2).argmax(1)
    return compose(first, directions(degrees)[best])


def directions(degrees: Float[Tensor, "*n"]) -> Float[Tensor, "*n 2"]:
    """Cosines and sines."""
    radians = torch.deg2rad(degrees)
    return torch.stack([radians.cos(), radians.sin()], dim=-1)


def compose(first: Float[Tensor, "*n 2"], second: Float[Tensor, "*n 2"]) -> Float[Tensor, "*n 2"]:
    """One rotation after the other, given by cosines and sines."""
    (cos, sin), (cos2, sin2) = first.unbind(-1), second.unbind(-1)
    return torch.stack([cos * cos2 - sin * sin2, sin * cos2 + cos * sin2], dim=-1)


def _full_precision(device_type: str) -> AbstractContextManager:
    available = torch.amp.is_autocast_available(device_type)  # not for meta tensors
    return torch.autocast(device_type, enabled=False) if available else nullcontext()


def _center_square(images: Float[Tensor, "b c H W"]) -> Float[Tensor, "b c s s"]:
    height, width = images.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side]
