"""Find the content of an image with a uniform border, such as an image that was rotated on an expanded canvas."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image

from spectral_vmamba.data.rectangle_fit import Rectangle, SideFit, enclose, fit_sides

_LONG_SIDE = 512  # larger images are reduced; the lengths below are in pixels of the reduced image
_SMALLEST_CONTENT = 24  # below, a pixel is too long to tell a straight side from a round one
_NARROWEST_BORDER = 2.0
_SLACK = 2.0  # canvases are rounded up to whole pixels
_RINGING = 3.0  # JPEG changes the border this far from the content
# Largest difference between two border pixels in a channel. The low one tells bright content from a white border;
# JPEG needs the higher ones, because it rings around the content.
_TOLERANCES = (20.0, 8.0, 40.0)
_CORNER_TOLERANCE = 20.0
_LEAST_CONTENT = 0.4  # of the smallest rectangle, which may still shrink a little when its sides are fitted
_CLEAR_SUPPORT = 0.95  # sides that are supported this far need no other tolerance


@dataclass(frozen=True)
class ContentDisk:
    """A disk of an image, in pixels of the decoded image.

    (0, 0) is the top left corner of the first pixel, so that pixel centers are at .5.
    """

    x: float
    y: float
    radius: float


def whole_disk(width: int, height: int) -> ContentDisk:
    """The inscribed disk of an image."""
    return ContentDisk(width / 2, height / 2, min(width, height) / 2)


def find_content(image: Image.Image) -> ContentDisk | None:
    """Return the inscribed disk of the rectangle of content in an RGB image; None if no uniform border is around it.

    A border has one color up to the noise of JPEG, includes the four corners of the image, and ends at four straight
    sides of a rectangle, which may be rotated. Dark or bright backgrounds that do not end at a rectangle are no border.
    """
    factor = ceil(max(image.size) / _LONG_SIDE)
    color = _corner_color(image, 1 + factor) if min(image.size) >= _SMALLEST_CONTENT * factor else None
    if color is None:
        return None
    reduced = np.asarray(image.reduce(factor), dtype=np.float32)
    contrast = np.abs(reduced - color).max(axis=-1)
    rectangle = _find_rectangle(contrast)
    if rectangle is None:
        return None
    x, y = (rectangle.center * factor).tolist()
    return ContentDisk(x, y, float(rectangle.sides.min()) / 2 * factor)


def _corner_color(image: Image.Image, side: int) -> Float[np.ndarray, "3"] | None:
    """The color of the four corners, None if they differ."""
    right, bottom = image.width - side, image.height - side
    patches = [image.crop((x, y, x + side, y + side)) for x in (0, right) for y in (0, bottom)]
    colors = np.stack([np.asarray(patch, dtype=np.float32).mean(axis=(0, 1)) for patch in patches])
    color = np.median(colors, axis=0)
    return color if np.abs(colors - color).max() <= _CORNER_TOLERANCE else None


def _find_rectangle(contrast: Float[np.ndarray, "h w"]) -> Rectangle | None:
    """The rectangle with the best supported sides over all tolerances, None if every one of them is in doubt."""
    smallest = max(_SMALLEST_CONTENT, min(contrast.shape) / 3)
    best: SideFit | None = None
    for tolerance in _TOLERANCES:
        content = contrast > tolerance
        # Content fills half of a rectangle that is plausible. A thin figure, such as a digit, need not be enclosed.
        if np.count_nonzero(content) < _LEAST_CONTENT * smallest**2:
            continue
        enclosing = enclose(content)
        if enclosing is None or enclosing.sides.min() < smallest:
            continue
        fit = fit_sides(enclosing, contrast, tolerance)
        if fit.contrast < 2 * tolerance or not _is_plausible(fit, content):
            continue
        if best is None or fit.support.mean() > best.support.mean():
            best = fit
        if best.support.mean() > _CLEAR_SUPPORT:
            break
    return best and best.rectangle


def _is_plausible(fit: SideFit, content: Bool[np.ndarray, "h w"]) -> bool:
    """Whether the border ends at the rectangle, and the rectangle is full of content."""
    height, width = content.shape
    low, high = fit.rectangle.corners.min(axis=0), (width, height) - fit.rectangle.corners.max(axis=0)
    margins = np.concatenate([low, high])  # between the rectangle's bounding box and the sides of the image
    # An expanded canvas has no margins. That is evidence, so that a side may be partly as dark as the border.
    least, mean = (0.25, 0.5) if margins.max() <= _SLACK else (0.85, 0.9)
    if margins.min() < -_SLACK or fit.support.min() < least or fit.support.mean() < mean:
        return False
    distances = fit.rectangle.outside_distances(height, width)
    outside, inside = distances > _RINGING, distances < 0
    return bool(
        distances.max() > _NARROWEST_BORDER
        and content[outside].sum() <= 0.01 * outside.sum()
        and content[inside].sum() >= 0.5 * inside.sum()
    )
