"""Pairs of image and mask files in folders and tables."""

import unicodedata

import numpy as np
import pytest

from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning
from spectral_vmamba.segmentation.layouts import find_pairs, pair_folders, read_pair_table
from tests.support.masked_folders import random_image, random_mask, write_image, write_pairs


def described(pairs, root):
    return [(str(pair.image.relative_to(root)), str(pair.mask.relative_to(root)), pair.split) for pair in pairs]


def test_pairs_have_the_same_path_without_suffix(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", ["a", "deep/er/b", "deep/b.1"], image_suffix=".jpg")
    write_image(tmp_path / "masks" / "a.tif", random_mask(0))
    (tmp_path / "masks" / "a.png").unlink()
    assert described(find_pairs(tmp_path), tmp_path) == [
        ("images/a.jpg", "masks/a.tif", ""),
        ("images/deep/b.1.jpg", "masks/deep/b.1.png", ""),
        ("images/deep/er/b.jpg", "masks/deep/er/b.png", ""),
    ]


@pytest.mark.parametrize("pattern", ["{kind}/{split}", "{split}/{kind}", "{kind}/{split}/more"])
def test_splits_are_folders_inside_or_outside(tmp_path, pattern):
    for split in ("Train", "val", "test"):
        images, masks = (tmp_path / pattern.format(kind=kind, split=split) for kind in ("images", "masks"))
        write_pairs(images, masks, ["a"])
    splits = {pair.split: pair.image for pair in find_pairs(tmp_path)}
    assert {*splits} == {"train", "val", "test"}
    assert all(split in str(path).lower() for split, path in splits.items())


@pytest.mark.parametrize("pattern", ["{kind}/train", "train/{kind}"])
def test_a_single_split_is_no_split(tmp_path, pattern):
    write_pairs(*(tmp_path / pattern.format(kind=kind) for kind in ("images", "masks")))
    assert [pair.split for pair in find_pairs(tmp_path)] == ["", "", ""]


def test_other_folders_beside_splits_are_an_error(tmp_path):
    for name in ("train", "val", "extra"):
        write_pairs(tmp_path / "images" / name, tmp_path / "masks" / name, ["a"])
    write_image(tmp_path / "images" / "loose.png", random_image(0))
    with pytest.raises(ValueError, match=r"only train, val in .*images, got also extra, loose\.png"):
        find_pairs(tmp_path)


def test_missing_partners_are_named_on_both_sides(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", ["x", *(f"only{i}" for i in range(7))])
    for i in range(7):
        (tmp_path / "masks" / f"only{i}.png").unlink()
    write_image(tmp_path / "masks" / "lost.png", random_mask(0))
    message = (
        r"7 images in .*images without a mask in .*masks: only0\.png, .*, only4\.png and 2 more; "
        r"1 mask in .*masks without an image in .*images: lost\.png; expected the same names"
    )
    with pytest.raises(ValueError, match=message):
        find_pairs(tmp_path)


def test_a_split_without_masks_is_an_error(tmp_path):
    write_pairs(tmp_path / "images" / "train", tmp_path / "masks" / "train")
    write_image(tmp_path / "images" / "test" / "a.png", random_image(0))
    with pytest.raises(ValueError, match=r"1 image in .*images/test without a mask in .*masks/test: a\.png"):
        find_pairs(tmp_path)


@pytest.mark.parametrize("folder", ["images", "masks"])
def test_two_files_for_one_partner_are_an_error(tmp_path, folder):
    write_pairs(tmp_path / "images", tmp_path / "masks", ["a"])
    write_image(tmp_path / folder / "a.bmp", random_mask(0))
    with pytest.raises(ValueError, match=rf"{folder}/a\.bmp and .*{folder}/a\.png differ only in their suffix"):
        find_pairs(tmp_path)


def test_empty_folders_are_an_error(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    with pytest.raises(ValueError, match=r"no images in .*images"):
        find_pairs(tmp_path)
    (tmp_path / "masks").rmdir()
    assert find_pairs(tmp_path) is None


def test_unicode_names_match_in_either_form(tmp_path):
    name = "Überwald 木"
    write_image(tmp_path / "images" / f"{unicodedata.normalize('NFD', name)}.png", random_image(0))
    write_image(tmp_path / "masks" / f"{unicodedata.normalize('NFC', name)}.png", random_mask(0))
    assert len(pair_folders(tmp_path / "images", tmp_path / "masks")) == 1


def test_links_to_files_and_to_the_folders_of_a_layout_are_followed(tmp_path):
    write_pairs(tmp_path / "stored" / "i", tmp_path / "stored" / "m", ["a"])
    for split in ("train", "val"):
        for kind in ("images", "masks"):
            (tmp_path / "data" / kind).mkdir(parents=True, exist_ok=True)
            (tmp_path / "data" / kind / split).symlink_to(tmp_path / "stored" / kind[0])
    (tmp_path / "stored" / "i" / "b.png").symlink_to("a.png")
    (tmp_path / "stored" / "m" / "b.png").symlink_to("a.png")
    pairs = find_pairs(tmp_path / "data")
    assert [(pair.split, pair.image.name) for pair in pairs] == [
        *(("train", name) for name in ("a.png", "b.png")),
        *(("val", name) for name in ("a.png", "b.png")),
    ]


def test_other_files_are_reported(tmp_path):
    write_pairs(tmp_path / "images", tmp_path / "masks", ["a"])
    (tmp_path / "masks" / "a.json").write_text("{}")
    with pytest.warns(SkippedFilesWarning, match=r"masks: 1 file skipped: 1 \.json"):
        assert len(find_pairs(tmp_path)) == 1


def test_tables_of_pairs(tmp_path):
    (tmp_path / "t.csv").write_text("\ufeffMask, Image ,split\nm/1.png,i/1.jpg,train\n/m/2.png,i/ü.jpg,val\n", "utf-8")
    first, second = read_pair_table(tmp_path / "t.csv")
    assert first == (tmp_path / "i" / "1.jpg", tmp_path / "m" / "1.png", "train")
    assert (str(second.image), str(second.mask), second.split) == (str(tmp_path / "i" / "ü.jpg"), "/m/2.png", "val")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label\n", "columns image,mask"),
        ("image,mask\n", "lists no images"),
        ("image,mask\na.png,\n", r"an image and a mask in every row, got only a\.png"),
        ("image,mask\na.png\n", r"an image and a mask in every row, got only a\.png"),
        ("image,mask,split\na.png,b.png,\n", r"no split for a\.png"),
    ],
)
def test_wrong_tables_explain_what_is_wrong(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pair_table(tmp_path / "t.csv")


def test_endings_select_files_and_are_not_compared(tmp_path):
    write_image(tmp_path / "i" / "c" / "a_left.png", random_image(0))
    write_image(tmp_path / "i" / "c" / "a_right.png", random_image(0))
    write_image(tmp_path / "m" / "c" / "a_ids.png", np.zeros((2, 2), np.uint8))
    (pair,) = pair_folders(tmp_path / "i", tmp_path / "m", "val", "_left", "_ids")
    assert described([pair], tmp_path) == [("i/c/a_left.png", "m/c/a_ids.png", "val")]
