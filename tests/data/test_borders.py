"""The content of images with a uniform border, and images that have none."""

from io import BytesIO
from math import hypot

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from spectral_vmamba.data import photographs
from spectral_vmamba.data.borders import ContentDisk, find_content, whole_disk
from spectral_vmamba.data.decode import decode_image

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "china", "flower", "brick")


@pytest.fixture(scope="module")
def photos() -> dict[str, Image.Image]:
    return {name: Image.fromarray(image.permute(1, 2, 0).numpy()) for name, image in photographs().items()}


def save_jpeg(image: Image.Image, quality: int | None) -> Image.Image:
    if quality is None:
        return image
    stream = BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return decode_image(stream.getvalue(), "a test image")


def assert_close(found: ContentDisk | None, expected: ContentDisk, tolerance: float = 0.01) -> None:
    assert found is not None
    assert hypot(found.x - expected.x, found.y - expected.y) < tolerance * expected.radius
    assert abs(found.radius - expected.radius) < tolerance * expected.radius


def expected_disk(original: Image.Image, canvas: Image.Image) -> ContentDisk:
    """PIL rotates on an expanded canvas about its center."""
    return ContentDisk(canvas.width / 2, canvas.height / 2, min(original.size) / 2)


def noise(width: int, height: int, low: int = 60, high: int = 200, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(low, high, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize("quality", [None, 90, 75])
@pytest.mark.parametrize("fill", ["black", "white", "gray"])
@pytest.mark.parametrize(
    ("angle", "size"), [(3.0, (200, 160)), (37.0, (200, 160)), (135.0, (128, 128)), (261.5, (300, 150))]
)
def test_an_expanded_canvas_has_the_disk_of_the_original(photos, angle, size, fill, quality):
    for name in PHOTOGRAPHS:
        original = photos[name].resize(size)
        canvas = original.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=fill)
        assert_close(find_content(save_jpeg(canvas, quality)), expected_disk(original, canvas))


@settings(max_examples=30)
@given(
    width=st.integers(40, 300),
    height=st.integers(40, 300),
    angle=st.floats(0, 360),
    fill=st.tuples(*[st.sampled_from([0, 20, 235, 255])] * 3),
    margin=st.integers(3, 40),
)
def test_rectangles_of_any_size_and_angle_are_found(width, height, angle, fill, margin):
    if min(width, height) < (max(width, height) + 2 * margin) / 2:
        width = height = min(width, height)  # the content has at least a third of the canvas
    content = noise(width, height)
    canvas = content.rotate(angle, expand=True, fillcolor=fill)
    bed = Image.new("RGB", (canvas.width + 2 * margin, canvas.height + margin), fill)
    bed.paste(canvas, (margin, 0))
    expected = ContentDisk(margin + canvas.width / 2, canvas.height / 2, min(width, height) / 2)
    assert_close(find_content(bed), expected, max(0.01, 0.5 / expected.radius))


def test_large_images_are_found_to_the_same_accuracy():
    original = noise(150, 113).resize((3001, 2257), Image.Resampling.BICUBIC)
    canvas = original.rotate(20, expand=True)
    assert_close(find_content(canvas), expected_disk(original, canvas), 0.005)


@pytest.mark.parametrize("angle", [10.0, 30.0, 45.0])
def test_color_that_jpeg_spreads_does_not_move_the_sides(angle):
    original = Image.new("RGB", (120, 120), (255, 250, 150))  # differs from white in its color, stored at half size
    canvas = original.rotate(angle, expand=True, fillcolor="white")
    assert_close(find_content(save_jpeg(canvas, 75)), expected_disk(original, canvas))


def test_transparent_corners_are_white(photos):
    original = photos["chelsea"].resize((200, 160))
    stream = BytesIO()
    canvas = original.convert("RGBA").rotate(30, expand=True)
    canvas.save(stream, "PNG")
    assert_close(find_content(decode_image(stream.getvalue(), "a test image")), expected_disk(original, canvas))


def test_a_photograph_on_a_scanner_bed(photos):
    original = photos["coffee"].resize((240, 180))
    mask = Image.new("L", original.size, 255).rotate(8, expand=True)
    bed = noise(420, 380, 238, 247)
    bed.paste(original.rotate(8, Image.Resampling.BICUBIC, expand=True), (60, 90), mask)
    assert_close(find_content(save_jpeg(bed, 90)), ContentDisk(60 + mask.width / 2, 90 + mask.height / 2, 90))


def test_dark_content_at_the_border_is_part_of_the_rectangle(photos):
    original = photos["astronaut"].resize((200, 200))
    draw = ImageDraw.Draw(original)
    draw.rectangle((0, 0, 60, 40), fill="black")
    draw.rectangle((150, 80, 200, 120), fill="black")
    canvas = original.rotate(25, Image.Resampling.BICUBIC, expand=True)
    assert_close(find_content(save_jpeg(canvas, 90)), expected_disk(original, canvas))


def test_bars_above_and_below_are_a_border():
    bars = Image.new("RGB", (160, 120))
    bars.paste(noise(160, 80), (0, 30))
    assert_close(find_content(bars), ContentDisk(80, 70, 40))


def test_photographs_have_no_border(photos):
    found = {name for name, photo in photos.items() if find_content(photo) is not None}
    assert found == set()


def test_a_rotation_on_the_same_canvas_has_no_border(photos):
    for angle in (2, 10, 45):
        assert find_content(photos["chelsea"].resize((200, 200)).rotate(angle)) is None


def draw_moon(draw: ImageDraw.ImageDraw) -> None:
    draw.ellipse((60, 50, 240, 230), fill="white")


def draw_skyline(draw: ImageDraw.ImageDraw) -> None:
    for i, top in enumerate((150, 90, 170, 60, 120, 140)):
        draw.rectangle((40 + 36 * i, top, 75 + 36 * i, 270), fill=(200, 190, 150))


def draw_product(draw: ImageDraw.ImageDraw) -> None:
    draw.rounded_rectangle((70, 60, 230, 240), 50, fill=(180, 160, 20))


def draw_text(draw: ImageDraw.ImageDraw) -> None:
    for line in range(25, 275, 11):
        draw.text((25, line), "The quick brown fox jumps over a lazy dog", fill=(220, 220, 220))


def draw_frame(draw: ImageDraw.ImageDraw) -> None:
    draw.rectangle((40, 40, 260, 260), outline="white", width=4)


def draw_two_photographs(draw: ImageDraw.ImageDraw) -> None:
    draw.rectangle((20, 20, 180, 180), fill=(200, 190, 150))
    draw.rectangle((200, 200, 290, 290), fill=(200, 190, 150))


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize(
    "draw",
    [draw_moon, draw_skyline, draw_product, draw_text, draw_frame, draw_two_photographs],
    ids=lambda f: f.__name__,
)
def test_backgrounds_that_do_not_end_at_a_rectangle_are_no_border(draw, invert):
    image = Image.new("RGB", (300, 300))
    draw(ImageDraw.Draw(image))
    image = Image.fromarray(255 - np.asarray(image)) if invert else image
    assert find_content(image) is None
    assert find_content(save_jpeg(image, 90)) is None


def test_a_gradual_edge_is_no_border():
    ramp = np.minimum(np.arange(200), np.arange(200)[::-1])
    image = Image.fromarray(np.tile(ramp[:, None, None], (1, 200, 3)).astype(np.uint8))
    assert find_content(image) is None


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (300, 1), (2, 2), (23, 23), (64, 64), (3000, 40)])
@pytest.mark.parametrize("color", ["black", "white", (90, 12, 200)])
def test_constant_images_have_no_border(size, color):
    assert find_content(Image.new("RGB", size, color)) is None


def test_a_constant_rectangle_in_a_border_is_content():
    image = Image.new("RGB", (120, 100), "red")
    image.paste("blue", (20, 10, 100, 90))
    assert_close(find_content(image), ContentDisk(60, 50, 40))


def test_images_whose_corners_differ_are_not_searched(photos, monkeypatch):
    monkeypatch.setattr(Image.Image, "reduce", lambda *_: pytest.fail("the image was reduced"))
    assert find_content(photos["coffee"]) is None


def test_the_whole_disk_is_the_largest_in_the_image():
    assert whole_disk(30, 20) == ContentDisk(15, 10, 10)


def test_a_narrow_content_or_border_is_no_border():
    narrow = Image.new("RGB", (300, 200))
    narrow.paste(noise(300, 50), (0, 75))
    assert find_content(narrow) is None
    line = Image.new("RGB", (200, 200))
    line.paste(noise(198, 198), (1, 1))
    assert find_content(line) is None


def test_a_rectangle_that_the_canvas_cuts_is_in_doubt():
    canvas = noise(200, 160).rotate(25, expand=True)
    assert find_content(canvas) is not None
    assert find_content(canvas.crop((8, 0, canvas.width, canvas.height))) is None


def test_a_photograph_in_a_page_with_thin_lines_is_in_doubt():
    page = Image.new("RGB", (200, 260), "white")
    page.paste(noise(160, 120), (20, 20))
    assert find_content(page) is not None
    for y in range(160, 240, 8):
        ImageDraw.Draw(page).line((20, y, 180, y), fill="black", width=2)
    assert find_content(page) is None


@pytest.mark.parametrize("angle", [12.0, 45.0])
def test_the_disk_does_not_depend_on_the_quarter_turn_of_the_file(photos, angle):
    canvas = photos["flower"].resize((240, 200)).rotate(angle, Image.Resampling.BICUBIC, expand=True)
    upright = find_content(canvas)
    turned = find_content(canvas.transpose(Image.Transpose.ROTATE_90))
    assert upright is not None
    assert_close(turned, ContentDisk(upright.y, canvas.width - upright.x, upright.radius), 0.002)
