"""The frame "quarter": the quarter turn that depends on an image's content, not on how the image was turned.

Every quarter turn of an image has the same canonical turn, down to the last bit. `quarter_frame` works on batches of
tensors, `canonical_turn` on one decoded image. Both take the lexicographically largest turn, landscape first; tensors
are compared channel by channel, decoded images pixel by pixel.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from spectral_vmamba.ops.frames.pose import Pose, turn_each
from spectral_vmamba.ops.turns import turn

# Pixels of one strip in a comparison of decoded images.
_LARGEST_STRIP = 2**18


def quarter_frame(
    images: Float[Tensor, "b c h w"], stop_early: bool = False
) -> tuple[Float[Tensor, "b c h2 w2"], Pose]:
    """Turn each image to the quarter turn whose values, read in order, are lexicographically largest.

    Two candidates tie only if they are the same image. Values are compared, never summed, so there is no rounding and
    an image's frame cannot depend on the rest of the batch. Portrait images are first turned to landscape; the
    candidates of a landscape image differ by a half turn.

    With `stop_early`, square images that differ from their turns in the first half of the first channel are not read
    further: faster, but the operations then depend on the values, which compilers cannot follow.
    """
    height, width = images.shape[-2:]
    common = int(height > width)
    step = 1 if height == width else 2
    landscape = turn(images, common) if common else images.contiguous()
    if step == 2:
        best, half = _larger(landscape, turn(landscape, 2))
        return best, Pose(common, 2 * half, step)
    if stop_early:
        own = _decide_early(images)
        return turn_each(images, own, step), Pose(common, own, step)
    # Two rounds: each of 0 and 1 quarters against its half turn, then the winners. If those are equal, all four are.
    pairs = torch.cat([landscape, turn(landscape, 1)])
    winners, half = _larger(pairs, turn(pairs, 2))
    best, odd = _larger(*winners.unflatten(0, (2, -1)).unbind())
    even_half, odd_half = half.unflatten(0, (2, -1)).unbind()
    return best, Pose(common, torch.where(odd > 0, 1 + 2 * odd_half, 2 * even_half), step)


def _decide_early(images: Float[Tensor, "b c s s"]) -> Int[Tensor, "b"]:
    """The quarter turns of `quarter_frame`; the whole images are read only if their first halves do not decide."""
    side = images.shape[-1]
    rows = (side + 1) // 2
    first = images[:, 0]
    halves = [
        first[:, :rows],
        first[:, :, side - rows :].transpose(1, 2).flip(1),
        first[:, side - rows :].flip(1, 2),
        first[:, :, :rows].transpose(1, 2).flip(2),
    ]
    winners, half, decided_pairs = _compare(torch.cat(halves[:2]), torch.cat(halves[2:]))
    _, odd, decided = _compare(*winners.unflatten(0, (2, -1)).unbind())
    even_half, odd_half = half.unflatten(0, (2, -1)).unbind()
    own = torch.where(odd > 0, 1 + 2 * odd_half, 2 * even_half)
    undecided = ~(decided & decided_pairs.unflatten(0, (2, -1)).all(0))
    if undecided.any():
        own[undecided] = quarter_frame(images[undecided])[1].own
    return own


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
    larger, number, _ = _compare(first, second)
    return larger, number


def _compare(
    first: Float[Tensor, "b *n"], second: Float[Tensor, "b *n"]
) -> tuple[Float[Tensor, "b *n"], Int[Tensor, "b"], Bool[Tensor, "b"]]:
    """The lexicographically larger of two images, its number, 0 or 1, and whether they differ at all."""
    a, b = first.flatten(1), second.flatten(1)
    place = (a != b).view(torch.uint8).argmax(1, keepdim=True)  # of the first difference
    a, b = a.gather(1, place), b.gather(1, place)
    second_wins = b > a
    larger = torch.where(second_wins.view(-1, *[1] * (first.ndim - 1)), second, first)
    return larger, second_wins.squeeze(1).long(), (a != b).squeeze(1)
