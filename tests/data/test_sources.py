"""From the name of a source to its images."""

import numpy as np
import pytest

from spectral_vmamba.data.dataset import UNLABELED
from spectral_vmamba.data.sources import (
    DataSplit,
    absolute_path,
    read_evaluation_part,
    read_images,
    read_named_images,
    read_source,
    read_validation_part,
)
from tests.support.image_folders import gray_image, write_class_folders


def read_split(data, val_data=None, val_fraction=0.2, seed=0, test_fraction=0.0):
    return DataSplit(str(data), val_data and str(val_data), val_fraction, seed, test_fraction).read()


def test_class_folders_are_split_by_a_seeded_fraction(tmp_path):
    write_class_folders(tmp_path, {"cat": 10, "dog": 5})
    train, val, test = read_split(tmp_path, seed=1)
    assert test is None
    assert train.classes == val.classes == ("cat", "dog")
    assert np.bincount(train.labels).tolist() == [8, 4]
    assert np.bincount(val.labels).tolist() == [2, 1]
    assert not set(train.names) & set(val.names)
    again, other = (read_split(tmp_path, seed=seed).train for seed in (1, 2))
    assert again.names == train.names != other.names


def test_test_images_are_in_no_other_part_and_leave_the_validation_images_as_they_are(tmp_path):
    write_class_folders(tmp_path, {"cat": 10, "dog": 20})
    train, val, test = read_split(tmp_path, test_fraction=0.3)
    assert test is not None
    assert [np.bincount(part.labels).tolist() for part in (train, val, test)] == [[5, 10], [2, 4], [3, 6]]
    assert len({*train.names, *val.names, *test.names}) == 30
    assert val.names == read_split(tmp_path).val.names


def test_test_images_are_taken_from_the_training_part_where_the_source_has_only_a_validation_part(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 10, "b": 10})
    write_class_folders(tmp_path / "val", {"a": 1, "b": 1})
    train, val, test = read_split(tmp_path, test_fraction=0.2)
    assert test is not None
    assert (len(train), len(val), len(test)) == (16, 2, 4)
    assert not {*train.names} & {*test.names}
    write_class_folders(tmp_path / "other", {"a": 3})
    train, val, test = read_split(tmp_path, tmp_path / "other", test_fraction=0.2)
    assert test is not None
    assert (len(train), len(val), len(test)) == (16, 3, 4)


def test_a_test_folder_next_to_train_and_val_is_held_out(tmp_path):
    for part, count in (("train", 4), ("val", 2), ("test", 3)):
        write_class_folders(tmp_path / part, {"a": count, "b": count})
    assert [len(part) for part in read_split(tmp_path)] == [8, 4, 6]
    assert [len(read_evaluation_part(str(tmp_path), part)) for part in (None, "val", "test")] == [6, 4, 6]
    with pytest.raises(ValueError, match=r"has test images of its own; expected test_fraction 0, got 0\.1"):
        read_split(tmp_path, test_fraction=0.1)
    (tmp_path / "val").rename(tmp_path / "unused")
    train, val, test = read_split(tmp_path)
    assert (len(train), len(val), test) == (8, 6, None)
    with pytest.raises(ValueError, match="has no part test; it has train, val"):
        read_evaluation_part(str(tmp_path), "test")


def test_images_of_a_split_open_by_index(tmp_path):
    write_class_folders(tmp_path, {"a": 3, "b": 3}, first_shade=40)
    train = read_split(tmp_path, val_fraction=0.4).train
    for i, name in enumerate(train.names):
        assert np.asarray(train.open(i)).mean() == 40 + int(name[2])


def test_validation_images_from_another_source(tmp_path):
    write_class_folders(tmp_path / "one", {"a": 2, "b": 2})
    write_class_folders(tmp_path / "two", {"b": 3})
    train, val, _ = read_split(tmp_path / "one", tmp_path / "two")
    assert len(train) == 4
    assert val.labels.tolist() == [1, 1, 1]
    assert len(read_validation_part(str(tmp_path / "one"))) == 4
    write_class_folders(tmp_path / "three", {"c": 1})
    with pytest.raises(ValueError, match=r"three does not match .*one: the class 'c' is not one of 'a', 'b'"):
        read_split(tmp_path / "one", tmp_path / "three")


@pytest.mark.parametrize("kind", ["empty", "missing", "text"])
def test_sources_without_images_explain_what_is_expected(tmp_path, kind):
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
        with pytest.raises(ValueError, match="expected one folder per class"):
            read_source(str(path))
    elif kind == "missing":
        with pytest.raises(FileNotFoundError, match="expected a folder of images"):
            read_source(str(path))
    else:
        path.write_text("hello")
        with pytest.raises(ValueError, match=r"a folder, a \.csv or a \.npz"):
            read_source(str(path))


def test_all_images_of_a_folder_labeled_or_not(tmp_path):
    write_class_folders(tmp_path / "train", {"a": 1, "b": 1}, first_shade=10)
    write_class_folders(tmp_path / "val", {"b": 1}, first_shade=20)
    gray_image(30).save(tmp_path / "loose.png")
    dataset = read_images(str(tmp_path))
    labels = {name: dataset.label_name(i) for i, name in enumerate(dataset.names)}
    assert labels == {"loose.png": None, "train/a/0.png": "a", "train/b/0.png": "b", "val/b/0.png": "b"}
    assert [np.asarray(dataset.open(i)).mean() for i in range(4)] == [30, 10, 10, 20]
    assert dataset.root == str(tmp_path)


def test_a_text_file_lists_paths_relative_to_it(tmp_path):
    gray_image(5).save(tmp_path / "a.png")
    (tmp_path / "list.txt").write_text("a.png\n\nnone.png\n")
    dataset = read_images(str(tmp_path / "list.txt"))
    assert (dataset.names, dataset.labels.tolist(), dataset.classes) == (["a.png", "none.png"], [UNLABELED] * 2, ())
    assert np.asarray(dataset.open(0)).mean() == 5
    with pytest.raises(ValueError, match="no image file at"):
        dataset.open(1)
    (tmp_path / "list.txt").write_text("\n")
    with pytest.raises(ValueError, match="expected one path per line"):
        read_images(str(tmp_path / "list.txt"))


def test_both_splits_of_a_pack_under_distinct_names(tmp_path):
    pixels = np.arange(3, dtype=np.uint8).reshape(3, 1, 1)
    np.savez(tmp_path / "p.npz", x_train=pixels[:2], y_train=[0, 1], x_test=pixels[2:], y_test=[1])
    dataset = read_images(str(tmp_path / "p.npz"))
    assert dataset.names == ["train/p#0", "train/p#1", "val/p#0"]
    assert [dataset.open(i).getpixel((0, 0))[0] for i in range(3)] == [0, 1, 2]
    assert [dataset.label_name(i) for i in range(3)] == ["0", "1", "1"]
    assert dataset.root is None


def test_named_images(tmp_path):
    gray_image(5).save(tmp_path / "a.png")
    dataset = read_named_images([str(tmp_path), str(tmp_path / "*.gif")])
    assert dataset.names == [str(tmp_path / "a.png"), str(tmp_path / "*.gif")]
    assert np.asarray(dataset.open(0)).mean() == 5
    with pytest.raises(ValueError, match="no image file at"):
        dataset.open(1)


def test_absolute_paths_of_files_and_unchanged_names_of_datasets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert absolute_path("here") == str(tmp_path / "here")
    assert absolute_path("digits") == "digits"
