"""Rectangles of images are those of the decoded image; TIFF files are read in parts where rasterio is installed."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image, TiffImagePlugin

from spectral_vmamba.data.decode import load_image
from spectral_vmamba.data.find import find_images
from spectral_vmamba.segmentation import regions as regions_module
from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.segmentation.regions import DecodedRegions, RegionError, TiffRegions, open_regions

ORIENTATION = 274


def random_pixels(*shape, dtype=np.uint8, highest=None):
    return np.random.default_rng(0).integers(0, highest or np.iinfo(dtype).max, shape, dtype, endpoint=True)


def assert_same_pixels(source, expected, kind):
    with open_regions(source) as regions:
        assert type(regions) is kind
        assert (3, regions.height, regions.width) == tuple(expected.shape)
        for top, left, height, width in ((0, 0, *expected.shape[1:]), (3, 5, 4, 2), (7, 0, 1, expected.shape[2])):
            part = regions.read(top, left, height, width)
            assert torch.equal(part, expected[:, top : top + height, left : left + width])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_read_as_displayed(tmp_path, orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(random_pixels(12, 20, 3)).save(tmp_path / "a.jpg", exif=exif)
    expected = load_image(tmp_path / "a.jpg")
    assert expected.shape == ((3, 12, 20) if orientation <= 4 else (3, 20, 12))
    assert_same_pixels(tmp_path / "a.jpg", expected, DecodedRegions)


def test_arrays_images_and_named_images(tmp_path):
    pixels = random_pixels(10, 14, 3)
    expected = torch.from_numpy(pixels).permute(2, 0, 1)
    assert_same_pixels(pixels, expected, DecodedRegions)
    assert_same_pixels(Image.fromarray(pixels), expected, DecodedRegions)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    for named in find_images([str(tmp_path)]):
        assert_same_pixels(named, expected, DecodedRegions)


def open_and_close(source, **options):
    with open_regions(source, **options):
        pass


def test_the_limit_of_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)  # Pillow refuses twice as many
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png has 20×10 pixels, more than the limit of 199"):
        open_and_close(tmp_path / "a.png", largest_pixels=199)
    with pytest.raises(ValueError, match=r"allow more with --largest-pixels"):
        open_and_close(tmp_path / "a.png", largest_pixels=199)
    open_and_close(tmp_path / "a.png", largest_pixels=200)
    assert Image.MAX_IMAGE_PIXELS == 50


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_damaged_files_are_named(tmp_path, name):
    Image.fromarray(random_pixels(64, 64, 3)).save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:20])
    with pytest.raises(ValueError, match=rf"{name} cannot be read as an image"):
        open_and_close(tmp_path / name)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no image file at .*none.png"):
        open_and_close(str(tmp_path / "none.png"))


TIFF_FILES = {
    "gray": Image.fromarray(random_pixels(12, 20)),
    "RGB": Image.fromarray(random_pixels(12, 20, 3)),
    "RGBA": Image.fromarray(random_pixels(12, 20, 4), "RGBA"),
    "16 bits": Image.fromarray(random_pixels(12, 20, dtype=np.uint16)),
    "16 bits, small values": Image.fromarray(random_pixels(12, 20, dtype=np.uint16, highest=200)),
    "32 bits": Image.fromarray(random_pixels(12, 20, dtype=np.int32)),
    "fractions": Image.fromarray(np.random.default_rng(0).random((12, 20)).astype(np.float32)),
    "infinite": Image.fromarray(np.array([[np.nan, np.inf, -5.0, 300.5]] * 12 * 5, np.float32).reshape(12, 20)),
}


@pytest.mark.parametrize("name", TIFF_FILES)
def test_parts_of_tiff_files_have_the_pixels_of_the_decoded_image(tmp_path, name):
    pytest.importorskip("rasterio", reason="needs rasterio")
    TIFF_FILES[name].save(tmp_path / "a.tif")
    assert_same_pixels(tmp_path / "a.tif", load_image(tmp_path / "a.tif"), TiffRegions)


@pytest.mark.parametrize("mode", ["P", "1", "CMYK"])
def test_other_colors_are_decoded_at_once(tmp_path, mode):
    Image.fromarray(random_pixels(12, 20, 3)).convert(mode).save(tmp_path / "a.tif")
    assert_same_pixels(tmp_path / "a.tif", load_image(tmp_path / "a.tif"), DecodedRegions)


def test_turned_tiff_files_are_read_as_displayed(tmp_path):
    Image.fromarray(random_pixels(12, 20, 3)).save(tmp_path / "a.tif", tiffinfo={ORIENTATION: 6})
    expected = load_image(tmp_path / "a.tif")
    assert expected.shape == (3, 20, 12)
    assert_same_pixels(tmp_path / "a.tif", expected, DecodedRegions)


def write_tiff(path, values, **options):
    rasterio = pytest.importorskip("rasterio", reason="needs rasterio")
    count, height, width = values.shape
    profile = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": values.dtype}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile, **options) as dataset:
            dataset.write(values)


def read_all(path):
    with open_regions(path) as regions:
        assert type(regions) is TiffRegions
        return regions.read(0, 0, regions.height, regions.width), regions.georeference


@pytest.mark.parametrize("bands", [5, 8])
def test_the_first_three_of_many_bands_are_the_colors(tmp_path, bands):
    values = random_pixels(bands, 12, 20)
    write_tiff(tmp_path / "a.tif", values, photometric="RGB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image, georeference = read_all(tmp_path / "a.tif")
    assert (image.numpy() == values[:3]).all()
    assert georeference is None


def test_16_bits_of_three_bands_lose_the_lower_eight(tmp_path):
    values = random_pixels(3, 12, 20, dtype=np.uint16)
    write_tiff(tmp_path / "a.tif", values, photometric="RGB", tiled=True, blockxsize=16, blockysize=16)
    image, _ = read_all(tmp_path / "a.tif")
    assert (image.numpy() == values >> 8).all()
    assert torch.equal(image, load_image(tmp_path / "a.tif"))


def test_the_scale_is_that_of_the_whole_image(tmp_path):
    """The largest value is in the last row: parts are scaled alike."""
    values = np.full((1, 600, 20), 100, np.uint16)
    values[0, -1, -1] = 5000
    write_tiff(tmp_path / "a.tif", values)
    assert_same_pixels(tmp_path / "a.tif", load_image(tmp_path / "a.tif"), TiffRegions)


def test_the_georeference(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="needs rasterio")
    transform = rasterio.Affine(0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0)
    write_tiff(tmp_path / "a.tif", random_pixels(3, 12, 20), crs="EPSG:32633", transform=transform)
    _, georeference = read_all(tmp_path / "a.tif")
    assert georeference.crs == "EPSG:32633"
    assert georeference.transform == (0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0)
    assert georeference.pixel_area == 0.25
    assert georeference.to_map(np.array([[2, 4]])).tolist() == [[400001.0, 4999998.0]]


@pytest.mark.parametrize("orientation", [1, 6])
def test_files_with_a_palette_keep_their_georeference(tmp_path, orientation):
    pytest.importorskip("rasterio", reason="needs rasterio")
    image = Image.fromarray(random_pixels(8, 12)).convert("P")
    scale, corner = (0.5, 0.5, 0.0), (0.0, 0.0, 0.0, 400000.0, 5000000.0, 0.0)
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)  # EPSG:32633
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    for tag, kind, values in ((33550, 12, scale), (33922, 12, corner), (34735, 3, keys), (274, 3, (orientation,))):
        tags.tagtype[tag] = kind
        tags[tag] = values
    image.save(tmp_path / "a.tif", tiffinfo=tags)
    with open_regions(tmp_path / "a.tif") as regions:
        assert isinstance(regions, DecodedRegions)
        georeference = regions.georeference
    if orientation == 1:
        assert georeference == Georeference((0.5, 0.0, 400000.0, 0.0, -0.5, 5000000.0), "EPSG:32633")
    else:
        assert georeference is None  # its pixels are displayed at other places


def test_a_tiff_file_that_is_damaged_in_the_middle(tmp_path):
    write_tiff(tmp_path / "a.tif", random_pixels(3, 400, 400), compress="deflate", blockysize=16)
    content = bytearray((tmp_path / "a.tif").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 5000] = bytes(5000)
    (tmp_path / "a.tif").write_bytes(content)
    with open_regions(tmp_path / "a.tif") as regions:
        regions.read(0, 0, 10, 400)
        with pytest.raises(RegionError, match=r"a.tif cannot be read at row 0, column 0"):
            regions.read(0, 0, 400, 400)


def test_the_limit_of_pixels_of_tiff_files(tmp_path):
    write_tiff(tmp_path / "a.tif", random_pixels(1, 10, 20))
    with pytest.raises(ValueError, match=r"a.tif has 20×10 pixels, more than the limit of 199"):
        open_and_close(tmp_path / "a.tif", largest_pixels=199)


def test_tiff_files_that_are_read_in_parts_have_no_limit_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr(regions_module, "LARGEST_PIXELS", 199)
    write_tiff(tmp_path / "a.tif", random_pixels(1, 10, 20))
    open_and_close(tmp_path / "a.tif")
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a.png has 20×10 pixels, more than the limit of 199"):
        open_and_close(tmp_path / "a.png")
