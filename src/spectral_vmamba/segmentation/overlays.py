"""Images with their classes as colors, class boundaries and a legend, built from strips of rows.

Images larger than a display are reduced while they are read: memory does not grow with them.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image, ImageDraw

from spectral_vmamba.segmentation.legend_font import drawable, find_font, fit
from spectral_vmamba.segmentation.mask_files import Palette

LARGEST_SIDE = 2048
_ALPHA = 0.5
_FONT_SIZE, _MARGIN, _SWATCH = 14, 10, 14
_LEGEND_WIDTH = 280  # of a canvas, at least: small images have legends, too


class OverlayCanvas:
    """Half the image, half the colors of its classes, at most `largest_side` pixels high and wide.

    Add strips from top to bottom, then draw. A larger image is reduced by a whole factor: colors are averaged over the
    pixels of a block, and boundaries are those between the classes at the centers of the blocks.
    """

    def __init__(self, height: int, width: int, palette: Palette, largest_side: int = LARGEST_SIDE):
        self.palette = np.array(palette, np.float32)
        self.height, self.width = height, width
        self.factor = -(-max(height, width) // largest_side)
        self.sums = np.zeros((-(-height // self.factor), -(-width // self.factor), 3), np.float32)
        self.ids = np.zeros(self.sums.shape[:2], np.uint8)
        self.pixels = np.zeros(len(palette), np.int64)
        self.rows = 0

    def add(self, image: UInt8[np.ndarray, "3 rows width"], ids: UInt8[np.ndarray, "rows width"]) -> None:
        """The next rows of the image and their classes."""
        self.pixels += np.bincount(ids.reshape(-1), minlength=len(self.pixels))
        rows = np.arange(self.rows, self.rows + len(ids))
        blocks, firsts = np.unique(rows // self.factor, return_index=True)
        columns = np.arange(0, self.width, self.factor)
        for channel, values in enumerate(image):
            mixed = (1 - _ALPHA) * values + _ALPHA * self.palette[ids, channel]
            reduced = np.add.reduceat(np.add.reduceat(mixed, columns, axis=1), firsts, axis=0)
            self.sums[blocks[0] : blocks[-1] + 1, :, channel] += reduced
        centers = np.minimum(np.arange(len(self.ids)) * self.factor + self.factor // 2, self.height - 1)
        inside = (centers >= rows[0]) & (centers <= rows[-1])
        center_columns = np.minimum(columns + self.factor // 2, self.width - 1)
        self.ids[inside] = ids[np.ix_(centers[inside] - rows[0], center_columns)]
        self.rows += len(ids)

    def draw(self, classes: Sequence[str]) -> Image.Image:
        """The overlay with a legend below: the classes that occur, by their shares of the area."""
        if self.rows != self.height:
            raise ValueError(f"expected {self.height:,} rows before drawing, got {self.rows:,}")
        counts = np.outer(_block_sizes(self.height, self.factor), _block_sizes(self.width, self.factor))
        colors = np.rint(self.sums / counts[:, :, None].astype(np.float32)).astype(np.uint8)
        boundary = find_boundaries(self.ids)
        colors[boundary] = self.palette.astype(np.uint8)[self.ids[boundary]]
        overlay = Image.fromarray(colors)
        legend = self._draw_legend(classes, max(overlay.width, _LEGEND_WIDTH))
        canvas = Image.new("RGB", (legend.width, overlay.height + legend.height), "white")
        canvas.paste(overlay, (0, 0))
        canvas.paste(legend, (0, overlay.height))
        return canvas

    def _draw_legend(self, classes: Sequence[str], width: int) -> Image.Image:
        order = sorted(np.flatnonzero(self.pixels).tolist(), key=lambda i: -self.pixels[i])
        font = find_font([classes[i] for i in order], _FONT_SIZE)
        available = width - 3 * _MARGIN - _SWATCH
        entries = []
        for i in order:
            share = f"  {format_share(self.pixels[i] / self.pixels.sum())}"
            name = fit(drawable(classes[i], font), font, available - font.getlength(share))
            entries.append((tuple(int(value) for value in self.palette[i]), name + share))
        entry_width = max(font.getlength(text) for _, text in entries) + _SWATCH + 3 * _MARGIN
        columns = max(int(width // entry_width), 1)
        line = _FONT_SIZE + _MARGIN
        legend = Image.new("RGB", (width, -(-len(entries) // columns) * line + _MARGIN), "white")
        pen = ImageDraw.Draw(legend)
        for i, (color, text) in enumerate(entries):
            left, top = _MARGIN + i % columns * int(entry_width), _MARGIN + i // columns * line
            pen.rectangle((left, top, left + _SWATCH, top + _SWATCH), fill=color, outline="gray")
            pen.text((left + _SWATCH + _MARGIN, top + _SWATCH // 2), text, fill="black", font=font, anchor="lm")
        return legend


def find_boundaries(ids: UInt8[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """The pixels whose class differs from that of the pixel above or to the left."""
    boundary = np.zeros(ids.shape, bool)
    boundary[1:] |= ids[1:] != ids[:-1]
    boundary[:, 1:] |= ids[:, 1:] != ids[:, :-1]
    return boundary


def format_share(share: float) -> str:
    """A share of the area in percent; a class that occurs is never 0.0 %."""
    return "<0.1 %" if share < 0.0005 else f"{100 * share:.1f} %"


def _block_sizes(length: int, factor: int) -> np.ndarray:
    return np.minimum(np.arange(factor, length + factor, factor), length) - np.arange(0, length, factor)
