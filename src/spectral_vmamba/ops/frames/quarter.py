"""The frame "quarter": the quarter turn that depends on an image's content, not on how the image was turned.

Every quarter turn of an image has the same canonical turn, down to the last bit. `quarter_frame` works on batches of
tensors, `canonical_turn` on one decoded image. Both take the lexicographically largest turn, landscape first; tensors
are compared channel by channel, decoded images pixel by pixel.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from spectral_vmamba.ops.frames.pose import Pose
from spectral_vmamba.ops.turns import turn

# Pixels of one strip in a comparison of decoded images.
_LARGEST_STRIP = 2**18


def quarter_frame(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Pose]:
    """Turn each image to the quarter turn whose values, read in order, are lexicographically largest.

    Two candidates tie only if they are the same image. Values are compared, never summed, so there is no rounding and
    an image's frame cannot depend on the rest of the batch. Portrait images are first turned to landscape; the
    candidates of a landscape image differ by a half turn.
    """
    height, width = images.shape[-2:]
    common = int(height > width)
    step = 1 if height == width else 2
    landscape = turn(images, common) if common else images.contiguous()
    best = landscape
    own = torch.zeros(images.shape[0], dtype=torch.int64, device=images.device)
    for quarters in range(step, 4, step):
        challenger = turn(landscape, quarters)
        wins = _lexicographically_greater(challenger, best)
        best = torch.where(wins[:, None, None, None], challenger, best)
        own = torch.where(wins, quarters, own)
    return best, Pose(common, own, step)


def canonical_turn(pixels: UInt8[np.ndarray, "h w *c"]) -> tuple[UInt8[np.ndarray, "h2 w2 *c"], int]:
    """The quarter turn of a decoded image with the largest bytes, landscape first, and its number of quarter turns.

    The counterclockwise turn with the fewest quarters wins ties.
    """
    height, width = pixels.shape[:2]
    quarters = canonical_quarters(height, width, lambda rows, columns: pixels[rows, columns])
    return np.ascontiguousarray(np.rot90(pixels, quarters)), quarters


def canonical_quarters(height: int, width: int, crop: Callable[[slice, slice], UInt8[np.ndarray, "h2 w2 *c"]]) -> int:
    """The quarter turns of `canonical_turn`, from a few rows and columns: `crop` returns a rectangle of the image.

    Most images are decided by their outermost rows and columns. Images that equal their own turn are compared as a
    whole, one strip after the other.
    """
    first, *challengers = range(4) if height == width else (1, 3) if height > width else (0, 2)
    best = first
    for challenger in challengers:
        if _is_larger(challenger, best, height, width, crop):
            best = challenger
    return best


def _is_larger(a: int, b: int, height: int, width: int, crop: Callable[[slice, slice], np.ndarray]) -> bool:
    """Whether the bytes of the image turned by `a` quarters are larger than by `b`, both of one shape."""
    rows, row_pixels = (width, height) if a % 2 else (height, width)
    start, size = 0, 1
    while start < rows:
        stop = min(start + size, rows)
        strips = [crop(*_strip_of_turn(quarters, start, stop, height, width)) for quarters in (a, b)]
        first, second = (np.rot90(strip, quarters) for strip, quarters in zip(strips, (a, b), strict=True))
        if not np.array_equal(first, second):
            return first.tobytes() > second.tobytes()
        start, size = stop, max(1, min(4 * size, _LARGEST_STRIP // row_pixels))
    return False


def _strip_of_turn(quarters: int, start: int, stop: int, height: int, width: int) -> tuple[slice, slice]:
    """Where the rows `start` to `stop` of the turned image are in the image itself: its rows and columns."""
    everything = slice(None)
    return [
        (slice(start, stop), everything),
        (everything, slice(width - stop, width - start)),
        (slice(height - stop, height - start), everything),
        (everything, slice(start, stop)),
    ][quarters]


def _lexicographically_greater(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.flatten(1), b.flatten(1)
    first_difference = (a != b).to(torch.uint8).argmax(dim=1, keepdim=True)
    return (a.gather(1, first_difference) > b.gather(1, first_difference)).squeeze(1)
