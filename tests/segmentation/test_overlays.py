"""Overlays: half image, half class color, at the size of a display, from strips of any height."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageFont

from spectral_vmamba.segmentation.legend_font import drawable, find_font, fit
from spectral_vmamba.segmentation.overlays import OverlayCanvas, find_boundaries, format_share

PALETTE = ((128, 0, 0), (0, 200, 0), (20, 40, 255))
CLASSES = ("dark", "gray", "light")


def draw(image, ids, rows, largest_side=2048, classes=CLASSES):
    canvas = OverlayCanvas(*ids.shape, PALETTE, largest_side)
    for top in range(0, len(ids), rows):
        canvas.add(image[:, top : top + rows], ids[top : top + rows])
    return np.asarray(canvas.draw(classes))


def random_scene(height, width):
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 3, (height // 6 + 1, width // 6 + 1), np.uint8)
    return generator.integers(0, 256, (3, height, width), np.uint8), coarse.repeat(6, 0).repeat(6, 1)[:height, :width]


def test_the_overlay_is_half_image_half_color_with_solid_boundaries():
    image, ids = random_scene(40, 300)
    overlay = draw(image, ids, 7)[:40, :300]
    colors = np.array(PALETTE)[ids]
    mixed = np.rint((image.transpose(1, 2, 0) + colors) / 2)
    boundary = find_boundaries(ids)
    assert 0 < boundary.mean() < 0.5
    assert (overlay[~boundary] == mixed[~boundary]).all()
    assert (overlay[boundary] == colors[boundary]).all()


def test_large_images_are_averaged_over_blocks():
    image, _ = random_scene(50, 70)
    ids = np.ones((50, 70), np.uint8)
    overlay = draw(image, ids, 11, largest_side=20)
    mixed = (image.transpose(1, 2, 0) + np.array(PALETTE[1])) / 2
    expected = [[mixed[y : y + 4, x : x + 4].mean((0, 1)) for x in range(0, 70, 4)] for y in range(0, 50, 4)]
    assert np.abs(overlay[:13, :18] - np.array(expected)).max() <= 0.5 + 1e-3


@settings(max_examples=30)
@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 20), st.integers(1, 60))
def test_the_strips_do_not_matter(height, width, largest_side, rows):
    image, ids = random_scene(height, width)
    whole = draw(image, ids, height, largest_side)
    assert np.abs(whole.astype(int) - draw(image, ids, rows, largest_side)).max() <= 1
    factor = -(-max(height, width) // largest_side)
    assert max(-(-height // factor), -(-width // factor)) <= largest_side


def test_the_legend_has_the_classes_that_occur_with_their_colors():
    image = np.zeros((3, 30, 300), np.uint8)
    ids = np.zeros((30, 300), np.uint8)
    ids[:10] = 2
    legend = draw(image, ids, 30)[30:]
    shown = {tuple(color) for color in legend.reshape(-1, 3).tolist()}
    assert PALETTE[0] in shown
    assert PALETTE[2] in shown
    assert PALETTE[1] not in shown
    assert (0, 0, 0) in shown, "text"


@pytest.mark.parametrize("names", [CLASSES, ("x" * 300, "寺", "a\nb"), ("", "", "")])
def test_any_names_fit(names):
    image, ids = random_scene(20, 20)
    assert draw(image, ids, 20, classes=names).shape[1] == 280


def test_characters_without_a_glyph_are_escaped():
    font = ImageFont.load_default(14)
    assert drawable("tree  (1)\n寺", font) == "tree (1) \\u5bfa"
    assert fit("a" * 100, font, 50).endswith("a...")
    assert font.getlength(fit("a" * 100, font, 50)) <= 50


def test_a_font_of_the_system_draws_what_pillow_s_own_does_not():
    assert find_font(["tree"], 14).getname() == ImageFont.load_default(14).getname()
    font = find_font(["Bäume"], 14)
    if font.getname() == ImageFont.load_default(14).getname():
        pytest.skip("no font with accents")
    assert drawable("Bäume", font) == "Bäume"


def test_shares():
    assert [format_share(share) for share in (0.00001, 0.001, 0.12345, 1.0)] == ["<0.1 %", "0.1 %", "12.3 %", "100.0 %"]


def test_missing_rows_are_refused():
    canvas = OverlayCanvas(4, 4, PALETTE)
    canvas.add(np.zeros((3, 3, 4), np.uint8), np.zeros((3, 4), np.uint8))
    with pytest.raises(ValueError, match="expected 4 rows before drawing, got 3"):
        canvas.draw(CLASSES)
