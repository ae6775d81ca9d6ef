"""Files in the frame "moment": the same pixels for quarter turns, nearly the same for every other turn of the file."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from spectral_vmamba.data import photograph_crops
from spectral_vmamba.data.posing import DiskTransform
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.ops.frames import brightness_direction, moment_frame
from spectral_vmamba.ops.smoothing import gaussian_blur
from spectral_vmamba.ops.turns import inscribed_disk, mask_outside_disk, rotate

SIZE = 64
MOMENT = Preprocessing(SIZE, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), frame="moment")


@pytest.fixture(scope="module")
def photos(crops):
    pixels = (crops(8, 160) * 0.25 + 0.5).clamp(0, 1)
    return [Image.fromarray((255 * each).permute(1, 2, 0).byte().numpy()) for each in pixels]


UPRIGHT = replace(MOMENT, frame="upright")


def inside(pixels):
    return pixels[:, inscribed_disk(SIZE, SIZE, pixels.device)].float()


@pytest.mark.parametrize("preprocessing", [MOMENT, UPRIGHT], ids=lambda each: each.frame)
@pytest.mark.parametrize("size", [(160, 160), (120, 150)], ids=str)
def test_quarter_turns_of_a_file_give_the_same_pixels(size, preprocessing, photos):
    transform = preprocessing.eval_transform()
    for photo in photos[:4]:
        photo = photo.crop((0, 0, *size))
        view = transform(photo)
        for quarters in (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270):
            assert torch.equal(transform(photo.transpose(quarters)).pixels, view.pixels)


@pytest.mark.parametrize("angle", [20, 45, 100, 200])
def test_a_file_turned_on_a_larger_canvas_meets_its_original(angle, photos):
    transform = MOMENT.eval_transform()
    differences, unposed = [], []
    for photo in photos:
        turned = photo.rotate(angle, Image.Resampling.BICUBIC, expand=True)
        view, other = transform(photo), transform(turned)
        assert other.without_border
        assert not view.without_border
        differences.append((inside(view.pixels) - inside(other.pixels)).abs().mean())
        plain = DiskTransform(SIZE, True, borders=False)(turned)
        unposed.append((inside(view.pixels) - inside(plain.pixels)).abs().mean())
    # measured: medians of 1.5 to 3 gray levels, and more than 15 with the border
    assert np.median(differences) < 6
    assert np.median(unposed) > 2 * np.median(differences)


def test_the_border_is_left_out_before_the_network_turns_an_image_upright(photos):
    """The view shows the disk of the content as the file does: the network, which rotates it, sees it at its size."""
    transform = UPRIGHT.eval_transform()
    for photo in photos:
        turned = photo.rotate(30, Image.Resampling.BICUBIC, expand=True)
        view, other = transform(photo), transform(turned)
        assert other.without_border
        assert view.rotation == other.rotation == (1.0, 0.0)
        # back by the turn of the file, and by the quarter turns of both views
        back = rotate(other.pixels[None].float(), -30.0 - 90 * other.quarters + 90 * view.quarters)[0]
        both = torch.stack([inside(back).flatten(), inside(view.pixels).flatten()])
        assert torch.corrcoef(both)[0, 1] > 0.95


def test_training_views_are_without_the_border(photos):
    """Two thirds of the canvas are content; without the border, all but the corners of its disk's square."""
    plain = Augmentation((1.0, 1.0), (1.0, 1.0), 0.0, rotation=0.0, color_jitter=0.0, auto_augment="")
    for photo in photos:
        white = Image.eval(photo, lambda value: max(value, 60))
        turned = white.rotate(30, Image.Resampling.BICUBIC, expand=True)
        kept, left_out = (
            plain.train_transform(replace(MOMENT, borders=borders))(turned).pixels for borders in (False, True)
        )
        assert (inside(kept).amax(0) < 20).float().mean() > 0.05
        assert (inside(left_out).amax(0) < 20).float().mean() < 0.01
        untouched = plain.train_transform(MOMENT)(white).pixels
        assert torch.equal(untouched, plain.train_transform(replace(MOMENT, borders=False))(white).pixels)


def test_the_network_does_not_interpolate_again(photos):
    """Its own frame finds such images in position, up to quarter turns."""
    views = [MOMENT.eval_transform()(photo).pixels[None].float() for photo in photos]
    in_position = [pixels for pixels in views if float(brightness_direction(pixels)[0, 1]) > 0.9997]  # within 1.4°
    assert len(in_position) >= len(views) / 2
    for pixels in in_position:
        posed, pose = moment_frame(pixels)
        assert pose.rotation.tolist() == [[1, 0]]
        blurred = mask_outside_disk(gaussian_blur(mask_outside_disk(pixels), 0.8 * SIZE / 128))
        differences = [(posed - torch.rot90(blurred, quarters, (2, 3))).abs().max() for quarters in range(4)]
        assert min(differences) < 1e-3, "sums of 255 in another order; interpolation would change gray levels"


def test_most_files_are_in_position(photos):
    up = [float(brightness_direction(MOMENT.eval_transform()(photo).pixels[None].float())[0, 1]) for photo in photos]
    assert np.mean(np.array(up) > np.cos(np.radians(1.5))) >= 0.75


def test_the_pose_of_a_view_turns_maps_back(photos):
    """The content of the file, resized without a turn, is the view turned back."""
    from spectral_vmamba.data.views import pose_of

    photo = photos[0]
    view = MOMENT.eval_transform()(photo)
    back = pose_of([view]).undo(view.pixels[None].float())[0]
    upright = torch.from_numpy(np.array(photo.resize((SIZE, SIZE), Image.Resampling.BOX))).permute(2, 0, 1)
    both = torch.stack([inside(back).flatten(), inside(upright).flatten()])
    assert torch.corrcoef(both)[0, 1] > 0.95


@pytest.mark.parametrize("color", [0, 128, 255])
def test_constant_images_and_borders_have_a_view(color):
    for size in ((1, 1), (3, 200), (64, 64)):
        view = MOMENT.eval_transform()(Image.new("RGB", size, (color,) * 3))
        assert view.pixels.shape == (3, SIZE, SIZE)
        assert inside(view.pixels).std() == 0 or min(size) == 1
    framed = ImageOps.expand(Image.new("RGB", (80, 80), "red"), 30, (color,) * 3)
    assert MOMENT.eval_transform()(framed).pixels.shape == (3, SIZE, SIZE)


def test_borders_can_be_kept(photos):
    turned = photos[0].rotate(30, expand=True)
    kept = Preprocessing(SIZE, (0.5,) * 3, (0.5,) * 3, frame="moment", borders=False).eval_transform()(turned)
    assert not kept.without_border


def test_a_photograph_has_no_border():
    for pixels in photograph_crops(6, 128):
        image = Image.fromarray(np.asarray(pixels).transpose(1, 2, 0).astype(np.uint8))
        assert not MOMENT.eval_transform()(image).without_border


@given(
    seed=st.integers(0, 2**16), height=st.integers(1, 9), width=st.integers(1, 9), levels=st.sampled_from([1, 2, 256])
)
def test_tiny_flat_and_symmetric_files_have_one_view(seed, height, width, levels):
    pixels = np.random.default_rng(seed).integers(0, levels, (height, width, 3), dtype=np.uint8)
    transform = MOMENT.eval_transform()
    view = transform(Image.fromarray(pixels))
    assert np.hypot(*view.rotation) == pytest.approx(1, abs=1e-6)
    assert not view.without_border, "too small for one"
    for quarters in (1, 2, 3):
        turned = Image.fromarray(np.ascontiguousarray(np.rot90(pixels, quarters)))
        assert torch.equal(transform(turned).pixels, view.pixels)
