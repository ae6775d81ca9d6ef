"""The frame "quarter": the quarter turn that depends on an image's content, not on how the image was turned.

Every quarter turn of an image has the same canonical turn, down to the last bit. `quarter_frame` works on batches of
tensors, `canonical_turn` on one decoded image. Both take the lexicographically largest turn, landscape first; tensors
are compared channel by channel, decoded images pixel by pixel.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
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
    if step == 2:
        best, half = _larger(landscape, turn(landscape, 2))
        return best, Pose(common, 2 * half, step)
    # Two rounds: each of 0 and 1 quarters against its half turn, then the winners. If those are equal, all four are.
    pairs = torch.cat([landscape, turn(landscape, 1)])
    winners, half = _larger(pairs, turn(pairs, 2))
    best, odd = _larger(*winners.unflatten(0, (2, -1)).unbind())
    even_half, odd_half = half.unflatten(0, (2, -1)).unbind()
    return best, Pose(common, torch.where(odd > 0, 1 + 2 * odd_half, 2 * even_half), step)


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


def _larger(
    first: Float[Tensor, "b c h w"], second: Float[Tensor, "b c h w"]
) -> tuple[Float[Tensor, "b c h w"], Int[Tensor, "b"]]:
    """The lexicographically larger of two images, and its number, 0 or 1; the first if they are equal."""
    a, b = first.flatten(1), second.flatten(1)
    place = (a != b).view(torch.uint8).argmax(1, keepdim=True)  # of the first difference
    second_wins = b.gather(1, place) > a.gather(1, place)
    return torch.where(second_wins[..., None, None], second, first), second_wins.squeeze(1).long()
