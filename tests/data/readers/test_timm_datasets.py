"""Datasets by timm's names."""

import gzip

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.readers.timm_datasets import DatasetItems
from spectral_vmamba.data.sources import DataSplit


def test_torchvision_datasets_by_name(tmp_path, monkeypatch):
    """MNIST in torchvision's own layout, so that nothing is downloaded."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 4), ("t10k", 2)):
        pixels = np.arange(count, dtype=np.uint8).repeat(28 * 28)
        images = np.array([0x803, count, 28, 28], ">i4").tobytes() + pixels.tobytes()
        labels = np.array([0x801, count], ">i4").tobytes() + bytes(range(count))
        for kind, content in (("images-idx3", images), ("labels-idx1", labels)):
            (raw / f"{part}-{kind}-ubyte").write_bytes(content)
            (raw / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr("spectral_vmamba.data.readers.timm_datasets._HOME", tmp_path)
    train, val, _ = DataSplit("torch/mnist", None, 0.2, 0).read()
    assert (len(train), len(val), len(train.classes)) == (4, 2, 10)
    assert np.asarray(train.open(3)).mean() == 3
    assert train.open(3).mode == "RGB"


def test_the_content_of_an_item_decodes_to_its_pixels():
    """Pixels may contain any byte, also the one that ends the size."""
    pixels = np.random.default_rng(0).choice(np.frombuffer(b"(),29", np.uint8), (13, 7, 3))
    items = DatasetItems([(Image.fromarray(pixels), 0)])
    assert np.array_equal(np.asarray(items.decode(0, items.content(0))), pixels)


def test_an_item_that_cannot_be_read_is_a_value_error():
    class Failing:
        def __getitem__(self, i):
            raise OSError("truncated")

    with pytest.raises(ValueError, match="item 0 cannot be read as an image: truncated"):
        DatasetItems(Failing()).content(0)
