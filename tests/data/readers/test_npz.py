"""NumPy packs, in all three layouts."""

import io

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.readers.npz import read_npz
from tests.support.image_folders import png_bytes


def test_packs_of_files(tmp_path):
    files = [png_bytes(shade) for shade in (10, 20, 30)]
    offset = np.cumsum([0, *map(len, files)])
    data = np.frombuffer(b"".join(files), np.uint8)
    splits = np.array(["train", "train", "test"])
    names = np.array(["dark", "light"])
    np.savez(tmp_path / "p.npz", data=data, offset=offset, label=[0, 1, 1], classes=names, split=splits)
    train, val = read_npz(tmp_path / "p.npz").values()
    assert train.classes == ("dark", "light")
    assert np.asarray(train.open(1)).mean() == 20
    assert np.asarray(val.open(0)).mean() == 30
    assert val.labels.tolist() == [1]
    assert train.storage.content(1) == files[1]


def test_a_damaged_file_in_a_pack_is_named(tmp_path):
    np.savez(tmp_path / "p.npz", data=np.frombuffer(b"no image", np.uint8), offset=[0, 8], label=[0])
    with pytest.raises(ValueError, match="image 0 of the pack cannot be read as an image"):
        read_npz(tmp_path / "p.npz")["all"].open(0)


def test_packs_of_sheets(tmp_path):
    """Image i of a sheet is in row i // 100, column i % 100."""
    numbers = np.arange(10_000, dtype=np.uint32).reshape(100, 100)
    sheet = np.stack([numbers % 256, numbers // 256, numbers * 0], axis=2).astype(np.uint8).repeat(2, 0).repeat(2, 1)
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, "PNG")
    labels = np.arange(10_000) % 10
    np.savez(tmp_path / "s.npz", sheet0=np.frombuffer(stream.getvalue(), np.uint8), label=labels)
    images = read_npz(tmp_path / "s.npz")["all"]
    assert len(images) == 10_000
    assert np.asarray(images.open(4321)).shape == (2, 2, 3)
    assert np.asarray(images.open(4321))[0, 0].tolist() == [4321 % 256, 4321 // 256, 0]


def test_packs_of_pixels(tmp_path):
    pixels = np.arange(6, dtype=np.uint8).reshape(6, 1, 1).repeat(4, 1).repeat(5, 2)
    np.savez(tmp_path / "x.npz", x_train=pixels, y_train=np.arange(6) % 2, x_test=pixels[:2], y_test=[1, 0])
    train, val = read_npz(tmp_path / "x.npz").values()
    assert train.open(5).size == (5, 4)
    assert train.open(5).mode == "RGB"
    assert (len(train), len(val), train.classes) == (6, 2, ("0", "1"))


def test_packs_with_pickles_are_rejected(tmp_path):
    np.savez(tmp_path / "bad.npz", data=np.array([{}], dtype=object), offset=[0, 1], label=[0])
    with pytest.raises(ValueError, match="without pickles"):
        read_npz(tmp_path / "bad.npz")


def test_unknown_layouts_are_rejected(tmp_path):
    np.savez(tmp_path / "bad.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match=r"expected data, offset and label, or .* got images"):
        read_npz(tmp_path / "bad.npz")
