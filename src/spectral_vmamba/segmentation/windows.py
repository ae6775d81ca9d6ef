"""Sliding windows over an image of any size: overlapping windows blended into class probabilities, strip by strip.

Blending is exact under quarter turns and flips: windows and weights are symmetric, and weighted probabilities are
summed as integers, so that the order of the windows does not matter. A network that is equivariant bit for bit stays
so on images larger than its window, and the batch size never changes a result.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Float32, Int32, UInt8
from torch import Tensor

from spectral_vmamba.utils.progress import Progress, no_progress
from spectral_vmamba.utils.wording import at_least

ReadRegion = Callable[[int, int, int, int], UInt8[Tensor, "3 h w"]]
"""Reads (top, left, height, width) inside an image."""
Scores = Callable[[UInt8[Tensor, "b 3 h w"]], Float[Tensor, "b classes h w"]]
"""Logits of images, pixel by pixel."""

_WEIGHT_STEPS = 4096  # weights are multiples of 1 / 4096: their products and sums are exact in float32 and float64
_SMALLEST_WEIGHT = 1 / 32
_STRIP_ROWS = 64  # rows of a yielded strip, at most: a strip is a copy in floats
_SHOW_BATCHES = 200  # images of more batches have a progress bar of their own


def window_starts(length: int, window: int, overlap: int) -> list[int]:
    """The first pixels of the windows along an axis, evenly spaced, neighbors overlapping by at least `overlap`.

    The first window starts at 0 and the last one ends at `length`. The windows are symmetric: s is a start if and only
    if length − window − s is one. An odd number of windows that cannot be symmetric becomes the next even number.
    A window larger than the image is centered, starting before it; if the margins cannot be equal, there are two.
    """
    at_least(1, length=length, window=window)
    if not 0 <= overlap < window:
        raise ValueError(f"expected an overlap of at least 0 and less than the window, {window} pixels; got {overlap}")
    last = length - window
    if last <= 0:
        return sorted({last // 2, last - last // 2})
    steps = -(-last // (window - overlap))
    steps += steps % 2 == 0 and last % 2 == 1
    first_half = [(2 * i * last + steps) // (2 * steps) for i in range((steps + 1) // 2)]  # i · last / steps, rounded
    middle = [last // 2] if steps % 2 == 0 else []
    return [*first_half, *middle, *(last - start for start in reversed(first_half))]


def weight_profile(window: int) -> Float32[np.ndarray, "window"]:
    """The weights of a window along one axis: sin² from its borders to its center, symmetric, at least 1 / 32.

    The weight of a pixel is the product of those of its row and its column.
    """
    half = np.sin(np.pi * (np.arange((window + 1) // 2) + 0.5) / window) ** 2
    half = np.maximum(np.rint(half * _WEIGHT_STEPS) / _WEIGHT_STEPS, _SMALLEST_WEIGHT)
    return np.concatenate([half, half[: window // 2][::-1]]).astype(np.float32)


def blend_windows(
    read: ReadRegion,
    height: int,
    width: int,
    window: int,
    overlap: int,
    logits: Scores,
    batch_size: int = 1,
    progress: Progress = no_progress,
) -> Iterator[tuple[int, Float32[Tensor, "classes rows width"]]]:
    """Yield the class probabilities of an image as strips (first row, probabilities), from top to bottom.

    `logits` gets batches of windows (b, 3, window, window); their softmax is averaged with the weights of
    `weight_profile`, and is returned as it is where one window covers the image. The part of a window outside a smaller
    image is a reflection of it: a black margin would be content for the network. Memory: four bytes per class for
    `window` rows of the image, and a batch.
    """
    at_least(1, batch_size=batch_size)
    tops, lefts = window_starts(height, window, overlap), window_starts(width, window, overlap)
    places = list(product(tops, lefts))
    batches = [places[i : i + batch_size] for i in range(0, len(places), batch_size)]
    shown = progress(batches, "windows", len(batches)) if len(batches) > _SHOW_BATCHES else batches
    windows = _window_probabilities(read, height, width, window, logits, shown)
    if len(places) == 1:
        (top, left), probabilities = next(windows)
        yield from _split_rows(0, torch.from_numpy(probabilities[:, -top : height - top, -left : width - left]))
        return
    blend = _Blend(height, width, window, tops, lefts)
    current = tops[0]
    for (top, left), probabilities in windows:
        if top != current:
            yield from blend.finish_rows(max(top, 0))
            current = top
        blend.add(top, left, probabilities)
    yield from blend.finish_rows(height)


class _Blend:
    """Weighted sums of the windows of one row of windows, over the whole width.

    The sums are integers: `scale` times the probabilities, with the largest scale at which no sum overflows.
    """

    def __init__(self, height: int, width: int, window: int, tops: list[int], lefts: list[int]):
        self.height, self.width, self.window = height, width, window
        self.weights = np.outer(profile := weight_profile(window), profile)
        self.row_totals = _sum_weights(height, tops, profile)
        self.column_totals = _sum_weights(width, lefts, profile)
        largest = float(self.row_totals.max() * self.column_totals.max())
        self.scale = 2.0 ** math.floor(math.log2(2**30 / largest))
        self.first = 0
        self.sums: Int32[np.ndarray, "classes window width"] | None = None

    def add(self, top: int, left: int, probabilities: Float32[np.ndarray, "classes window window"]) -> None:
        if self.sums is None:
            self.sums = np.zeros((len(probabilities), min(self.window, self.height), self.width), np.int32)
        rows, inside_rows = _clip(top, self.window, self.height)
        columns, inside_columns = _clip(left, self.window, self.width)
        weights = self.weights[inside_rows, inside_columns] * np.float32(self.scale)
        rows = slice(rows.start - self.first, rows.stop - self.first)
        for total, values in zip(self.sums, probabilities[:, inside_rows, inside_columns], strict=True):
            total[rows, columns] += np.rint(values * weights).astype(np.int32)

    def finish_rows(self, end: int) -> Iterator[tuple[int, Float32[Tensor, "classes rows width"]]]:
        """Yield the rows before `end`, which no later window changes, and keep the sums of the others."""
        assert self.sums is not None
        for start in range(self.first, end, _STRIP_ROWS):
            stop = min(start + _STRIP_ROWS, end)
            divisor = self.scale * np.outer(self.row_totals[start:stop], self.column_totals)
            sums = self.sums[:, start - self.first : stop - self.first]
            yield start, torch.from_numpy((sums / divisor).astype(np.float32))
        done = end - self.first
        for total in self.sums:
            total[: len(total) - done] = total[done:].copy()
            total[len(total) - done :] = 0
        self.first = end


def class_probabilities(logits: Scores, images: UInt8[Tensor, "b 3 h w"]) -> list[Float32[np.ndarray, "classes h w"]]:
    """Run the network on images; the softmax of its logits. Raises an error if their shape or values are wrong."""
    scores = logits(images)
    if scores.ndim != 4 or scores.shape[0] != len(images) or scores.shape[2:] != images.shape[2:]:
        expected = f"({len(images)}, classes, {images.shape[2]}, {images.shape[3]})"
        raise ValueError(f"expected logits {expected} of the network, got {tuple(scores.shape)}")
    probabilities = [softmax(score) for score in scores]
    if not all(np.isfinite(values).all() for values in probabilities):
        raise FloatingPointError("the logits of the network are not finite; check its weights and precision")
    return probabilities


def softmax(logits: Float[Tensor, "classes h w"]) -> Float32[np.ndarray, "classes h w"]:
    """Class probabilities whose bits do not depend on where a pixel is, unlike those of torch's vectorized softmax."""
    values = logits.detach().float().cpu().numpy()
    with np.errstate(invalid="ignore"):  # infinite logits give NaN, which the caller refuses
        exponentials = np.exp(values - values.max(0))
        return exponentials / exponentials.sum(0)


def _window_probabilities(
    read: ReadRegion, height: int, width: int, window: int, logits: Scores, batches: Iterable[list[tuple[int, int]]]
) -> Iterator[tuple[tuple[int, int], Float32[np.ndarray, "classes window window"]]]:
    for places in batches:
        images = torch.stack([_read_window(read, height, width, window, *place) for place in places])
        yield from zip(places, class_probabilities(logits, images), strict=True)


def _read_window(
    read: ReadRegion, height: int, width: int, window: int, top: int, left: int
) -> UInt8[Tensor, "3 window window"]:
    rows, inside_rows = _clip(top, window, height)
    columns, inside_columns = _clip(left, window, width)
    pixels = read(rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start)
    if tuple(pixels.shape[1:]) == (window, window):
        return pixels
    margins = [(part.start, window - part.stop) for part in (inside_rows, inside_columns)]
    return torch.from_numpy(np.pad(pixels.numpy(), [(0, 0), *margins], mode="reflect"))


def _clip(start: int, window: int, length: int) -> tuple[slice, slice]:
    """The pixels of a window inside the image, as positions in the image and in the window."""
    first, end = max(start, 0), min(start + window, length)
    return slice(first, end), slice(first - start, end - start)


def _sum_weights(length: int, starts: list[int], profile: Float32[np.ndarray, "window"]) -> np.ndarray:
    totals = np.zeros(length)
    for start in starts:
        inside, part = _clip(start, len(profile), length)
        totals[inside] += profile[part]
    return totals


def _split_rows(first: int, scores: Float32[Tensor, "classes rows width"]) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, scores.shape[1], _STRIP_ROWS):
        yield first + start, scores[:, start : start + _STRIP_ROWS]
