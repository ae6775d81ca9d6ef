"""Class folders and CSV tables."""

import csv

import numpy as np
import pytest

from spectral_vmamba.data.dataset import UNLABELED
from spectral_vmamba.data.readers.folder import (
    read_csv,
    read_folder,
    read_partly_labeled_folder,
    read_unlabeled_folder,
)
from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning, list_folder
from tests.support.image_folders import gray_image, write_class_folders


def test_train_and_val_folders_share_their_classes(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 2, "b": 2, "c": 1})
    write_class_folders(tmp_path / "val", {"c": 1, "a": 1})
    splits = read_folder(tmp_path)
    assert splits["train"].classes == splits["val"].classes == ("a", "b", "c")
    assert splits["val"].labels.tolist() == [0, 2]
    assert splits["val"].names == ["a/0.png", "c/0.png"]


def test_a_validation_class_that_was_not_trained_is_an_error(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 2, "b": 2})
    write_class_folders(tmp_path / "val", {"a": 1, "z": 1})
    with pytest.raises(ValueError, match="'z' is not one of 'a', 'b'"):
        read_folder(tmp_path)


@pytest.mark.parametrize("split", ["train", "val", "Test"])
def test_a_single_split_folder_is_the_whole_dataset(tmp_path, split):
    write_class_folders(tmp_path / split, {"a": 2, "b": 1})
    (images,) = read_folder(tmp_path).values()
    assert (images.classes, images.names) == (("a", "b"), ["a/0.png", "a/1.png", "b/0.png"])
    assert images.root == str(tmp_path / split)


def test_a_class_may_have_the_name_of_a_split(tmp_path):
    """Trains, for example."""
    write_class_folders(tmp_path, {"train": 2})
    assert read_folder(tmp_path)["all"].classes == ("train",)
    write_class_folders(tmp_path, {"bus": 1})
    assert read_folder(tmp_path)["all"].classes == ("bus", "train")


def test_images_outside_class_folders_are_an_error(tmp_path):
    gray_image(0).save(tmp_path / "loose.png")
    with pytest.raises(ValueError, match=r"1 image in .* but not in class folders; expected one folder per class"):
        read_folder(tmp_path)


def test_hidden_files_and_empty_folders_are_ignored(tmp_path):
    write_class_folders(tmp_path, {"a": 1, ".hidden": 1, "empty": 0})
    gray_image(0).save(tmp_path / "a" / ".hidden.png")
    gray_image(0).save(tmp_path / "a" / "1.PNG", "PNG")
    assert [path.name for path in list_folder(tmp_path)[0]] == ["0.png", "1.PNG"]
    with pytest.warns(SkippedFilesWarning, match="1 class folder without images: empty$"):
        assert read_folder(tmp_path)["all"].classes == ("a",)


def test_folders_without_labels(tmp_path):
    write_class_folders(tmp_path / "deep", {"a": 1, "b": 1}, first_shade=3)
    dataset = read_unlabeled_folder(tmp_path)
    assert (dataset.names, dataset.labels.tolist()) == (["deep/a/0.png", "deep/b/0.png"], [UNLABELED] * 2)
    assert np.asarray(dataset.open(1)).mean() == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images in"):
        read_unlabeled_folder(tmp_path / "empty")


def test_contradicting_class_folders_leave_all_images_unlabeled(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 1, "b": 1})
    write_class_folders(tmp_path / "val", {"z": 1})
    assert read_partly_labeled_folder(tmp_path).labels.tolist() == [UNLABELED] * 3


def test_tables_of_paths_labels_and_splits(tmp_path):
    write_class_folders(tmp_path / "images", {"x": 4})
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "label", "split"])
        writer.writerows(
            [f"images/x/{i}.png", "odd" if i % 2 else "even", "val" if i > 1 else "train"] for i in range(4)
        )
    splits = read_csv(tmp_path / "t.csv")
    assert splits["train"].classes == ("even", "odd")
    assert [splits[name].labels.tolist() for name in ("train", "val")] == [[0, 1], [0, 1]]
    assert np.asarray(splits["val"].open(1)).mean() == 3


def test_a_missing_file_of_a_table_is_an_unreadable_image(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\nnone.png,a\n")
    with pytest.raises(ValueError, match=r"no image file at .*none.png"):
        read_csv(tmp_path / "t.csv")["all"].open(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\n", "path,label"),
        ("path,label\n", "lists no images"),
        ("path,label\na.png,\n", "no label for a.png"),
        ("path,label,split\na.png,x,train\n", "expected the splits train and val"),
    ],
)
def test_wrong_tables_explain_what_is_wrong(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_csv(tmp_path / "t.csv")
