"""Write small images, segment them with the toy segmenter, and read the masks."""

import numpy as np
from PIL import Image

from spectral_vmamba.data.find import find_images
from spectral_vmamba.segmentation.predict_files import PredictOptions, predict_files
from tests.support.toy_segmenter import ToySegmenter

ALL = ("mask", "overlay", "geojson", "coco", "areas")


def smooth_pixels(height, width):
    """Bright and dark blobs."""
    y, x = np.mgrid[:height, :width]
    waves = np.sin(y / 7)[..., None] + np.cos(x / 9)[..., None] + np.array([0.0, 0.1, 0.2])
    return (127 + 60 * waves).clip(0, 255).astype(np.uint8)


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def predict(tmp_path, *names, segmenter=None, **options):
    options = PredictOptions(**{"output": str(tmp_path / "out"), "formats": ALL, **options})
    images = find_images([str(tmp_path / name) for name in names or ("photos",)])
    return list(predict_files(segmenter or ToySegmenter(), images, options))


def read_mask(path):
    with Image.open(path) as image:
        assert image.mode == "P"
        return np.asarray(image)
