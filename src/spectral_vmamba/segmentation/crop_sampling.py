"""A square of an image and of its mask, scaled and rotated in one resampling."""

import random
from dataclasses import dataclass
from math import cos, radians, sin

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from PIL import Image

from spectral_vmamba.data.borders import ContentDisk
from spectral_vmamba.data.warp import source_coordinates, warp_disk


@dataclass(frozen=True)
class CropWindow:
    """Where a crop of `size` × `size` pixels is in an image of `width` × `height` pixels that was enlarged by `scale`.

    `left` and `top` are in pixels of the scaled image; they are negative where it is smaller than the crop. The crop
    shows the image rotated counterclockwise by `angle` degrees about the center of the part in the window.
    """

    width: int
    height: int
    left: int
    top: int
    size: int
    scale: float
    angle: float = 0.0

    def crop_image(self, image: Image.Image) -> Image.Image:
        """Bicubic and antialiased; black outside of the image."""
        if self.angle:
            disk, direction = self._disk()
            pixels = warp_disk(image, disk, direction, self.size)
            return Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
        box, (x, y, width, height) = self._visible()
        crop = Image.new("RGB", (self.size, self.size))
        crop.paste(image.resize((width, height), Image.Resampling.BICUBIC, box), (x, y))
        return crop

    def crop_mask(self, mask: UInt8[np.ndarray, "h w"], fill: int) -> UInt8[np.ndarray, "size size"]:
        """The class id of the pixel in which the center of each pixel of the crop is; `fill` outside of the image."""
        if self.angle:
            x, y, inside = self._sources()
            return np.where(inside, mask[y.clip(0, self.height - 1), x.clip(0, self.width - 1)], np.uint8(fill))
        box, (x, y, width, height) = self._visible()
        crop = np.full((self.size, self.size), fill, np.uint8)
        resized = Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST, box)
        crop[y : y + height, x : x + width] = np.asarray(resized)
        return crop

    def inside(self) -> Bool[np.ndarray, "size size"]:
        """Which pixels of the crop show the image."""
        if self.angle:
            return self._sources()[2]
        _, (x, y, width, height) = self._visible()
        inside = np.zeros((self.size, self.size), bool)
        inside[y : y + height, x : x + width] = True
        return inside

    def _visible(self) -> tuple[tuple[float, float, float, float], tuple[int, int, int, int]]:
        """The part of the image that an unrotated crop shows, and where: left, top, width and height in the crop."""
        scaled_width, scaled_height = scaled_size(self.width, self.height, self.scale)
        left, top = max(self.left, 0), max(self.top, 0)
        right, bottom = min(self.left + self.size, scaled_width), min(self.top + self.size, scaled_height)
        x_step, y_step = self.width / scaled_width, self.height / scaled_height
        box = left * x_step, top * y_step, min(right * x_step, self.width), min(bottom * y_step, self.height)
        return box, (left - self.left, top - self.top, right - left, bottom - top)

    def _disk(self) -> tuple[ContentDisk, tuple[float, float]]:
        """The disk in the window and the direction of the rotation, as `warp_disk` expects them.

        `warp_disk` rotates about the center of the crop. Where this is not the center of the visible part, the disk is
        around the place that the rotation brings there.
        """
        _, (x, y, width, height) = self._visible()
        half, angle = self.size / 2, radians(self.angle)
        center_x, center_y = x + width / 2, y + height / 2
        right, down = half - center_x, half - center_y
        source_x = self.left + center_x + cos(angle) * right - sin(angle) * down
        source_y = self.top + center_y + sin(angle) * right + cos(angle) * down
        disk = ContentDisk(source_x / self.scale, source_y / self.scale, half / self.scale)
        return disk, (cos(angle), sin(angle))

    def _sources(
        self,
    ) -> tuple[Int[np.ndarray, "size size"], Int[np.ndarray, "size size"], Bool[np.ndarray, "size size"]]:
        """Column and row of the image's pixel that the center of each pixel of a rotated crop shows, and whether it is
        inside the image."""
        positions = source_coordinates(*self._disk(), self.size)
        x, y = (position.floor().to(torch.int64).numpy() for position in positions)
        return x, y, (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)


def scaled_size(width: int, height: int, scale: float) -> tuple[int, int]:
    return max(round(width * scale), 1), max(round(height * scale), 1)


def draw_window(width: int, height: int, size: int, scale: float, angle: float) -> CropWindow:
    """A window at a random place: inside the scaled image, or around it where it is smaller than the window.

    Draws from Python's global generator.
    """
    left, top = (_draw_start(side - size) for side in scaled_size(width, height, scale))
    return CropWindow(width, height, left, top, size, scale, angle)


def _draw_start(slack: int) -> int:
    return random.randint(min(slack, 0), max(slack, 0))
