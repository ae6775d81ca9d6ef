"""ImageDataset: labels, subsets, concatenation and fingerprints."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset, concatenate, digest_content, format_classes
from spectral_vmamba.data.readers.npz import PixelArrays
from spectral_vmamba.data.sources import read_images, read_source
from tests.support.image_folders import gray_image, write_class_folders


def shades(*values: int, labels: list[int] | None = None, classes: tuple[str, ...] = ("a", "b")) -> ImageDataset:
    """Images of one pixel, unlabeled unless labels are given."""
    pixels = np.array(values, np.uint8).reshape(-1, 1, 1)
    numbers = np.full(len(values), UNLABELED) if labels is None else np.array(labels)
    return ImageDataset(classes, numbers, [f"{value}.png" for value in values], list(values), PixelArrays(pixels))


def opened_shades(dataset: ImageDataset) -> list[int]:
    return [dataset.open(i).getpixel((0, 0))[0] for i in range(len(dataset))]


class NoStorage:
    """Fails when anything is read."""

    def content(self, i):
        raise AssertionError("read an image")

    def decode(self, i, content):
        raise AssertionError("decoded an image")


def test_subsets_of_subsets_open_their_own_images():
    dataset = shades(10, 20, 30, 40, labels=[0, 1, 0, 1])
    part = dataset.subset(np.array([3, 2, 0])).subset(np.array([2, 0]))
    assert opened_shades(part) == [10, 40]
    assert (part.labels.tolist(), part.names, part.stamps) == ([0, 1], ["10.png", "40.png"], [10, 40])
    assert [part.label_name(i) for i in range(2)] == ["a", "b"]


def test_other_classes_renumber_labels_and_leave_unlabeled_images_unlabeled():
    dataset = shades(1, 2, 3, labels=[1, UNLABELED, 0])
    renumbered = dataset.with_classes(("b", "x", "a"), "context")
    assert renumbered.labels.tolist() == [0, UNLABELED, 2]
    assert [renumbered.label_name(i) for i in range(3)] == ["b", None, "a"]
    unused = shades(1, labels=[0], classes=("a", "unused"))
    assert unused.with_classes(("a",), "context").labels.tolist() == [0]
    assert shades(1, classes=()).with_classes(("a",), "context").labels.tolist() == [UNLABELED]
    with pytest.raises(ValueError, match="context: the class 'b' is not one of 'a'"):
        dataset.with_classes(("a",), "context")


def test_concatenation_merges_classes_and_keeps_unlabeled_images():
    labeled = shades(10, 20, labels=[1, 0], classes=("cat", "dog"))
    unlabeled = shades(30, classes=())
    other = shades(40, 50, labels=[0, 1], classes=("emu", "cat"))
    joined = concatenate([labeled, unlabeled, other], names=list("vwxyz"), stamps=range(5), root="/images")
    assert joined.classes == ("cat", "dog", "emu")
    assert joined.labels.tolist() == [1, 0, UNLABELED, 2, 0]
    assert [joined.label_name(i) for i in range(5)] == ["dog", "cat", None, "emu", "cat"]
    assert opened_shades(joined) == [10, 20, 30, 40, 50]
    assert (list(joined.names), list(joined.stamps), joined.root) == (list("vwxyz"), [0, 1, 2, 3, 4], "/images")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_concatenation_finds_images_next_to_empty_datasets(lengths):
    parts = [shades(*range(10 * k, 10 * k + length)) for k, length in enumerate(lengths)]
    names = [name for part in parts for name in part.names]
    joined = concatenate(parts, names, names, None)
    assert opened_shades(joined) == [10 * k + i for k, length in enumerate(lengths) for i in range(length)]


def test_fingerprint_covers_names_labels_classes_and_stamps_without_reading():
    dataset = replace(shades(1, 2, labels=[0, UNLABELED]), storage=NoStorage())
    variants = [
        dataset,
        replace(dataset, names=["1.png", "3.png"]),
        replace(dataset, labels=np.array([0, 0])),
        replace(dataset, labels=np.array([UNLABELED, 0])),
        replace(dataset, classes=("a", "c")),
        replace(dataset, classes=("a", "b", "c")),
        replace(dataset, stamps=[1, 9]),
        dataset.subset(np.array([1, 0])),
        dataset.subset(np.array([0])),
    ]
    assert len({variant.fingerprint() for variant in variants}) == len(variants)
    assert replace(dataset, root="/elsewhere").fingerprint() == dataset.fingerprint()


def test_fingerprint_of_unlabeled_images_and_of_names_that_are_not_utf8():
    unlabeled = shades(1, 2, classes=())
    assert unlabeled.fingerprint() != shades(1, 2, classes=("a",)).fingerprint()
    odd = "caf\udce9"  # how Python represents the byte 0xE9 in a file name
    named = replace(unlabeled, names=[odd, "2.png"], labels=np.array([0, UNLABELED]), classes=(odd,))
    assert named.fingerprint() != unlabeled.fingerprint()


def test_fingerprint_notices_a_changed_file(tmp_path):
    write_class_folders(tmp_path, {"a": 2, "b": 2})
    before = read_source(str(tmp_path))["all"].fingerprint()
    assert read_source(str(tmp_path))["all"].fingerprint() == before
    gray_image(77, size=9).save(tmp_path / "a" / "0.png")
    assert read_source(str(tmp_path))["all"].fingerprint() != before


def test_fingerprint_of_unlabeled_files_notices_a_change_of_equal_size(tmp_path):
    (tmp_path / "a.png").write_bytes(b"one")
    before = read_images(str(tmp_path)).fingerprint()
    (tmp_path / "a.png").write_bytes(b"two")
    assert read_images(str(tmp_path)).fingerprint() != before


def test_images_are_identified_by_all_of_their_stored_bytes():
    dataset = shades(1, 2, 1)
    digests = [digest_content(dataset.storage.content(i)) for i in range(3)]
    assert digests[0] == digests[2] != digests[1]
    wide, tall = (PixelArrays(np.zeros((1, *shape), np.uint8)) for shape in ((2, 8), (8, 2)))
    assert digest_content(wide.content(0)) != digest_content(tall.content(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ["one"]}, r"as many labels as names and stamps, got \(2, 1, 2\)"),
        ({"stamps": [1, 2, 3]}, r"got \(2, 2, 3\)"),
        ({"labels": np.array([0, 2])}, "labels from 0 to 1, got 2"),
        ({"labels": np.array([-2, 0])}, "labels from 0 to 1, got -2"),
    ],
)
def test_inconsistent_datasets_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(shades(1, 2), **changes)


def test_long_lists_of_classes_are_shortened():
    assert format_classes(("a", "b")) == "'a', 'b'"
    assert format_classes(list("abcdefghij"), limit=3) == "'a', 'b', 'c' and 7 more"
