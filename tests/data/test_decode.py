"""Decode image files: modes, orientation, limits and damage."""

import sys
from io import BytesIO

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.data import load_image, resize
from spectral_vmamba.data.decode import decode_image, image_to_tensor, read_file, to_pil
from tests.support.image_folders import gray_image, png_bytes


def save_and_load(tmp_path, image, name="x.png", **options):
    image.save(tmp_path / name, **options)
    return load_image(tmp_path / name)


def test_all_modes_become_rgb(tmp_path):
    gray = Image.fromarray(np.full((2, 3), 77, np.uint8))
    assert (save_and_load(tmp_path, gray) == 77).all()
    assert save_and_load(tmp_path, gray).shape == (3, 2, 3)
    sixteen_bits = Image.fromarray(np.full((2, 3), 77 * 256 + 5, np.uint16))
    assert (save_and_load(tmp_path, sixteen_bits) == 77).all()
    thirty_two_bits = Image.fromarray(np.array([[0, 2**30]], np.int32))
    assert save_and_load(tmp_path, thirty_two_bits, "x.tiff")[0, 0].tolist() == [0, 255]
    fractions = Image.fromarray(np.array([[0, 0.25, 0.5]], np.float32))
    assert save_and_load(tmp_path, fractions, "x.tiff")[0, 0].tolist() == [0, 127, 255]
    transparent = Image.new("RGBA", (3, 2), (10, 20, 30, 0))
    assert (save_and_load(tmp_path, transparent) == 255).all()
    palette = Image.new("RGB", (3, 2), (10, 20, 30)).quantize(4)
    assert save_and_load(tmp_path, palette)[:, 0, 0].tolist() == [10, 20, 30]
    cmyk = Image.new("RGB", (8, 8), (200, 100, 50)).convert("CMYK")
    assert save_and_load(tmp_path, cmyk, "x.tiff")[:, 0, 0].tolist() == [200, 100, 50]


def test_exif_orientation_is_applied(tmp_path):
    image = Image.new("RGB", (4, 2))
    image.putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6
    loaded = save_and_load(tmp_path, image, exif=exif)
    assert loaded.shape == (3, 4, 2)
    assert loaded[0, 0, 1] == 255


def test_images_with_too_many_pixels_are_rejected_before_they_are_decoded(tmp_path, monkeypatch):
    Image.new("RGB", (100, 100)).save(tmp_path / "big.png")
    assert load_image(tmp_path / "big.png", largest_pixels=10_000).shape == (3, 100, 100)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda image: pytest.fail("decoded the image"))
    with pytest.raises(ValueError, match="100×100 pixels, more than the limit of 9,999"):
        load_image(tmp_path / "big.png", largest_pixels=9_999)


def test_files_with_too_many_bytes_are_rejected_before_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "big.png"
    path.write_bytes(bytes(1000))
    assert read_file(path, largest_bytes=1000) == bytes(1000)
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda path: pytest.fail("read the file"))
    with pytest.raises(ValueError, match=r"big\.png has 1,000 bytes, more than the limit of 999"):
        read_file(path, largest_bytes=999)


def test_missing_files_and_folders_are_value_errors(tmp_path):
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(ValueError, match="no image file at"):
            read_file(path)


def test_truncated_files_are_an_error(tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(tmp_path / "x.png")
    content = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"x\.png cannot be read as an image"):
        load_image(tmp_path / "x.png")


def test_the_reason_is_the_same_each_time():
    """Lists of unreadable images are compared, so no memory address may appear in them."""
    reasons = set()
    for content in (b"no image", bytearray(b"no image")):  # at two addresses
        with pytest.raises(ValueError, match=r"page\.png cannot be read as an image: unknown format") as error:
            decode_image(bytes(content), "page.png")
        reasons.add(str(error.value))
    assert len(reasons) == 1


@settings(max_examples=200)
@given(st.data())
def test_damaged_files_give_an_image_or_an_error_that_names_them(data):
    content = bytearray(data.draw(st.sampled_from([png_bytes(123), b"P6 2 2 255 0123456789ab"])))
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[position] = data.draw(st.integers(0, 255))
    reason, image = "x.png ", None
    try:
        image = decode_image(bytes(content), "x.png", largest_pixels=10_000)
    except ValueError as error:
        reason = str(error)
    assert reason.startswith("x.png ")
    assert image is None or image.mode == "RGB"


def test_all_forms_of_an_image_become_the_same_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3), np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "x.png")
    content = (tmp_path / "x.png").read_bytes()
    forms = [tmp_path / "x.png", str(tmp_path / "x.png"), content, image, pixels, image_to_tensor(image)]
    assert {to_pil(form).tobytes() for form in forms} == {pixels.tobytes()}
    assert to_pil(pixels[..., 0]).mode == "RGB"
    assert to_pil(gray_image(9).convert("L")).mode == "RGB"
    shapes = [torch.zeros(4, 4, dtype=torch.uint8), torch.zeros(5, 4, 4, dtype=torch.uint8)]
    for wrong in (pixels.astype(float), pixels[None], torch.zeros(3, 4, 4), *shapes):
        with pytest.raises(ValueError, match=r"expected .* uint8"):
            to_pil(wrong)
    with pytest.raises(ValueError, match="at least one pixel"):
        to_pil(pixels[:0])


def images_of_all_modes():
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
    yield from (Image.fromarray(values[..., 0]), Image.fromarray(values[..., :2], "LA"), Image.fromarray(values))
    yield from (Image.fromarray(values[..., 0]).convert("1"), Image.fromarray(values[..., :3]).quantize(8))
    yield Image.fromarray(256 * values[..., 0].astype(np.uint16) + 7)
    yield Image.fromarray(values[..., 0].astype(np.int32) * 2**20)
    yield Image.fromarray(values[..., 0].astype(np.float32) / 256)


@pytest.mark.parametrize("image", list(images_of_all_modes()), ids=lambda image: image.mode)
def test_a_decoded_image_of_any_mode_is_converted_as_its_file(image, tmp_path):
    image.save(tmp_path / "x.tiff")
    assert np.array_equal(to_pil(image), to_pil(tmp_path / "x.tiff"))
    assert 60 < np.asarray(to_pil(image)).mean() < 220, "neither clipped nor black"


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_gray_and_transparent_arrays_are_converted_as_their_files(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    image = Image.fromarray(pixels.squeeze(-1) if channels == 1 else pixels)
    for form in (pixels, torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))):
        assert np.array_equal(to_pil(form), to_pil(png(image)))


def png(image):
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def test_resize_keeps_proportions():
    assert resize(torch.zeros(1, 3, 100, 50), 25).shape == (1, 3, 50, 25)


HEIC_HEADER = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"


def test_a_heic_image_names_the_extra_that_reads_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"a.heic is a HEIC image; to read it, pip install 'spectral-vmamba\[heic\]'"):
        decode_image(HEIC_HEADER, "a.heic")


@pytest.mark.full
def test_heic_images_are_read(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="comes with the extra `heic`")
    pixels = np.full((64, 96, 3), 128, np.uint8)
    heif.from_pillow(Image.fromarray(pixels)).save(tmp_path / "a.heic", quality=90)
    image = load_image(tmp_path / "a.heic")
    assert image.shape == (3, 64, 96)
    assert (image.float() - 128).abs().max() <= 4  # lossy
    with pytest.raises(ValueError, match=r"b.heic cannot be read as an image"):
        decode_image(HEIC_HEADER, "b.heic")
