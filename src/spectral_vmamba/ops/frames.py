"""The canonical frame: the quarter turn that depends on an image's content, not on how the image was turned.

Every quarter turn of an image has the same canonical frame, down to the last bit. `canonical_frame` works on batches of
tensors, `canonical_turn` on one decoded image. Both take the lexicographically largest turn, landscape first; tensors
are compared channel by channel, decoded images pixel by pixel.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from spectral_vmamba.ops.turns import turn


@dataclass(frozen=True)
class Frame:
    """The quarter turns that brought a batch into its canonical frame: `common` for all, then `own` for each image."""

    common: int
    own: Int[Tensor, "b"]
    step: int  # own turns are multiples of this: 1 for square images, 2 (half turns) otherwise

    def apply(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps from the frame of the original images into the canonical frame."""
        landscape = turn(maps, self.common)
        candidates = [turn(landscape, quarters) for quarters in range(0, 4, self.step)]
        return _select(candidates, self.own // self.step)

    def undo(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps from the canonical frame back into the frame of the original images."""
        candidates = [turn(maps, -quarters) for quarters in range(0, 4, self.step)]
        return turn(_select(candidates, self.own // self.step), -self.common)


def canonical_frame(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Frame]:
    """Turn each image to the quarter turn whose values, read in order, are lexicographically largest.

    Two candidates tie only if they are the same image. Values are compared, never summed, so there is no rounding and
    an image's frame cannot depend on the rest of the batch. Portrait images are first turned to landscape; the
    candidates of a landscape image differ by a half turn.
    """
    height, width = images.shape[-2:]
    common = int(height > width)
    step = 1 if height == width else 2
    landscape = turn(images, common)
    candidates = [turn(landscape, quarters) for quarters in range(0, 4, step)]
    best = torch.zeros(images.shape[0], dtype=torch.int64, device=images.device)
    for challenger in range(1, len(candidates)):
        wins = _lexicographically_greater(candidates[challenger], _select(candidates, best))
        best = torch.where(wins, challenger, best)
    return _select(candidates, best), Frame(common, best * step, step)


def canonical_turn(pixels: UInt8[np.ndarray, "h w *c"]) -> tuple[UInt8[np.ndarray, "h2 w2 *c"], int]:
    """The quarter turn of a decoded image with the largest bytes, landscape first, and its number of quarter turns.

    The counterclockwise turn with the fewest quarters wins ties.
    """
    height, width = pixels.shape[:2]
    candidates = range(4) if height == width else (1, 3) if height > width else (0, 2)
    turns = [(np.ascontiguousarray(np.rot90(pixels, quarters)), quarters) for quarters in candidates]
    return max(turns, key=lambda candidate: candidate[0].tobytes())


def _select(candidates: list[Tensor], index: Int[Tensor, "b"]) -> Tensor:
    image = torch.arange(index.shape[0], device=index.device)
    return torch.stack(candidates)[index, image]


def _lexicographically_greater(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.flatten(1), b.flatten(1)
    first_difference = (a != b).to(torch.uint8).argmax(dim=1, keepdim=True)
    return (a.gather(1, first_difference) > b.gather(1, first_difference)).squeeze(1)
