import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data import load_image, photograph_crops, photographs, resize


def save(tmp_path, image, name="x.png", **options):
    image.save(tmp_path / name, **options)
    return load_image(tmp_path / name)


def test_modes_come_as_a_person_sees_them(tmp_path):
    gray = Image.fromarray(np.full((2, 3), 77, np.uint8))
    assert (save(tmp_path, gray) == 77).all()
    assert save(tmp_path, gray).shape == (3, 2, 3)
    sixteen = Image.fromarray(np.full((2, 3), 77 * 256 + 5, np.uint16))
    assert (save(tmp_path, sixteen) == 77).all()
    thirty_two = Image.fromarray(np.array([[0, 2**30]], np.int32))
    assert save(tmp_path, thirty_two, "x.tiff")[0, 0].tolist() == [0, 255]
    clear = Image.new("RGBA", (3, 2), (10, 20, 30, 0))
    assert (save(tmp_path, clear) == 255).all()
    palette = Image.new("RGB", (3, 2), (10, 20, 30)).quantize(4)
    assert save(tmp_path, palette)[:, 0, 0].tolist() == [10, 20, 30]
    cmyk = Image.new("RGB", (8, 8), (200, 100, 50)).convert("CMYK")
    assert abs(int(save(tmp_path, cmyk, "x.tiff")[0, 0, 0]) - 200) < 8


def test_exif_rotation_is_applied(tmp_path):
    image = Image.new("RGB", (4, 2))
    image.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6
    loaded = save(tmp_path, image, exif=exif)
    assert loaded.shape == (3, 4, 2)
    assert loaded[0, 0, 1] == 255


def test_oversized_images_are_refused_unread(tmp_path):
    Image.new("RGB", (100, 100)).save(tmp_path / "big.png")
    with pytest.raises(ValueError, match="100×100 pixels, more than the 9,999"):
        load_image(tmp_path / "big.png", largest_pixels=9_999)


def test_truncated_files_are_an_error(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(tmp_path / "x.png")
    whole = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        load_image(tmp_path / "x.png")


def test_resize_keeps_proportions():
    assert resize(torch.zeros(1, 3, 100, 50), 25).shape == (1, 3, 50, 25)


def test_photographs_are_many_and_real():
    images = photographs()
    assert len(images) == 18
    assert all(p.shape[0] == 3 and p.dtype is torch.uint8 and p.float().std() > 5 for p in images.values())


def test_crops_are_seeded_and_cover_all_photographs():
    crops = photograph_crops(20, (97, 131), seed=3)
    assert crops.shape == (20, 3, 97, 131)
    assert torch.equal(crops, photograph_crops(20, (97, 131), seed=3))
    assert not torch.equal(crops, photograph_crops(20, (97, 131), seed=4))
    assert photograph_crops(18, 600).shape == (18, 3, 600, 600)
