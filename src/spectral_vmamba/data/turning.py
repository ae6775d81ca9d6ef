"""Turn decoded images by quarter turns."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from spectral_vmamba.ops.frames import canonical_quarters

_TURNS = {1: Image.Transpose.ROTATE_90, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_270}


def turn_to_canonical(image: Image.Image) -> tuple[Image.Image, int]:
    """`canonical_turn` of an image, with one more copy of it at most, and none if it needs no turn."""

    def crop(rows: slice, columns: slice) -> UInt8[np.ndarray, "h w *c"]:
        (top, bottom, _), (left, right, _) = rows.indices(image.height), columns.indices(image.width)
        return np.asarray(image.crop((left, top, right, bottom)))

    quarters = canonical_quarters(image.height, image.width, crop)
    return (image.transpose(_TURNS[quarters]) if quarters else image), quarters
