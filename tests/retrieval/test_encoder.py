"""From pixels to vectors and tokens."""

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data.views import pose_of
from spectral_vmamba.retrieval import embed
from spectral_vmamba.retrieval.encoder import build_encoder
from tests.retrieval.conftest import embed_config
from tests.support.image_folders import write_photographs


def test_a_change_of_the_image_shows_in_the_token_at_its_cell(tmp_path):
    encoder = build_encoder("spectral_vmamba_lite", None, None, "cpu", "stem")
    (path,) = write_photographs(tmp_path, 1)
    plain = np.asarray(Image.open(path)).copy()
    plain[0, :] = 0
    plain[0, 0] = 255  # determines the canonical turn; outside the disk
    changed = plain.copy()
    changed[32:48, 80:96] = 255 - changed[32:48, 80:96]  # cell (2, 5) of 16 px
    transform = encoder.preprocessing.eval_transform()
    views = [transform(Image.fromarray(pixels)) for pixels in (plain, changed)]
    pixels, pose = torch.stack([view.pixels for view in views]), pose_of(views)
    tokens = encoder.encode(pixels, pose, tokens=True).tokens.astype(np.float32)
    largest = np.abs(tokens[0] - tokens[1]).sum(1).argmax()
    assert encoder.token_layout()[0][largest].tolist() == [2, 5]


def test_models_without_a_pretrained_stem_are_rejected(photos, tmp_path):
    with pytest.raises(ValueError, match="spectral_vmamba_nano has no pretrained stem"):
        embed(embed_config(photos, tmp_path, model="spectral_vmamba_nano"))
    with pytest.raises(ValueError, match="expected a Spectral VMamba"):
        embed(embed_config(photos, tmp_path, model="resnet18"))
    with pytest.raises(ValueError, match="spectral_vmamba_nano has no pretrained stem"):
        embed(embed_config(photos, tmp_path, model="spectral_vmamba_nano", features="whole"))


def test_the_weights_have_a_digest(run):
    one, again = (build_encoder("ignored", str(run), None, "cpu") for _ in range(2))
    assert one.weights_digest() == again.weights_digest()
    with torch.no_grad():
        next(again.features.parameters()).view(-1)[0] += 1
    assert one.weights_digest() != again.weights_digest()
