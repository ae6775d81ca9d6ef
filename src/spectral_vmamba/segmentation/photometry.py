"""Random changes of the colors of an image: the photometric distortion of SSD, as in mmsegmentation's recipes."""

import random
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from PIL import Image

_LEVELS = np.arange(256.0)
_HUE_CIRCLE = 255  # Pillow stores an angle of h circles as 255 h


@dataclass(frozen=True)
class PhotometricDistortion:
    """Change brightness, contrast, saturation and hue, each with probability 1/2.

    Contrast is changed before or after saturation and hue, with probability 1/2.
    `brightness` is the largest summand to pixels of 0 to 255, `contrast` and `saturation` the largest relative changes,
    and `hue` the largest turn, where 180 is the circle. Draws from Python's global generator.
    """

    brightness: float
    contrast: float
    saturation: float
    hue: float

    def __call__(self, image: Image.Image) -> Image.Image:
        if self.brightness and _coin():
            image = _map_channels(image, _LEVELS + random.uniform(-self.brightness, self.brightness))
        contrast_first = _coin()
        if contrast_first:
            image = self._change_contrast(image)
        image = self._change_saturation_and_hue(image)
        return image if contrast_first else self._change_contrast(image)

    def _change_contrast(self, image: Image.Image) -> Image.Image:
        if self.contrast and _coin():
            return _map_channels(image, _LEVELS * random.uniform(1 - self.contrast, 1 + self.contrast))
        return image

    def _change_saturation_and_hue(self, image: Image.Image) -> Image.Image:
        factor = random.uniform(1 - self.saturation, 1 + self.saturation) if self.saturation and _coin() else 1.0
        turn = random.uniform(-self.hue, self.hue) / 180 if self.hue and _coin() else 0.0
        if factor == 1 and turn == 0:
            return image
        hue, saturation, value = image.convert("HSV").split()
        hue = _map_channels(hue, (_LEVELS + turn * _HUE_CIRCLE) % _HUE_CIRCLE)
        saturation = _map_channels(saturation, _LEVELS * factor)
        return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def _coin() -> bool:
    return random.random() < 0.5


def _map_channels(image: Image.Image, levels: Float[np.ndarray, "256"]) -> Image.Image:
    """Replace level i of every channel by levels[i], rounded to 0 to 255."""
    table = levels.round().clip(0, 255).astype(int).tolist()
    return image.point(table * len(image.getbands()))
