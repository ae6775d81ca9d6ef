"""Every way to name images, and what is wrong with some."""

import csv
import gzip
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.data.readers.npz import of_pixels
from spectral_vmamba.data.sources import read_source, training_data, validation_data
from spectral_vmamba.data.splits import split_counts, split_fraction


def image(shade: int, size: int = 8) -> Image.Image:
    return Image.fromarray(np.full((size, size, 3), shade, np.uint8))


def folder_of(root, counts: dict[str, int], shade: int = 0) -> None:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for i in range(count):
            image(shade + i).save(root / name / f"{i}.png")


def png(shade: int) -> bytes:
    stream = io.BytesIO()
    image(shade).save(stream, "PNG")
    return stream.getvalue()


def test_one_folder_a_class_is_divided_by_a_seeded_fraction(tmp_path):
    folder_of(tmp_path, {"cat": 10, "dog": 5})
    train, val = training_data(str(tmp_path), val_fraction=0.2, seed=1)
    assert train.classes == val.classes == ("cat", "dog")
    assert np.bincount(train.labels).tolist() == [8, 4]
    assert np.bincount(val.labels).tolist() == [2, 1]
    assert not set(train.names) & set(val.names)
    again, _ = training_data(str(tmp_path), val_fraction=0.2, seed=1)
    other, _ = training_data(str(tmp_path), val_fraction=0.2, seed=2)
    assert again.names == train.names != other.names


def test_images_open_by_their_number(tmp_path):
    folder_of(tmp_path, {"a": 3, "b": 3}, shade=40)
    train, _ = training_data(str(tmp_path), val_fraction=0.4)
    for i, name in enumerate(train.names):
        assert np.asarray(train.opener(i)).mean() == 40 + int(name[2])


def test_train_and_val_folders_share_their_classes(tmp_path):
    folder_of(tmp_path / "train", {"a": 2, "b": 2, "c": 1})
    folder_of(tmp_path / "val", {"c": 1, "a": 1})
    train, val = training_data(str(tmp_path))
    assert train.classes == val.classes == ("a", "b", "c")
    assert val.labels.tolist() == [0, 2]


def test_a_class_that_was_not_trained_is_an_error(tmp_path):
    folder_of(tmp_path / "train", {"a": 2, "b": 2})
    folder_of(tmp_path / "val", {"a": 1, "z": 1})
    with pytest.raises(ValueError, match="'z' is not among 'a', 'b'"):
        training_data(str(tmp_path))


def test_tables_name_paths_labels_and_splits(tmp_path):
    folder_of(tmp_path / "pics", {"x": 4})
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "label", "split"])
        writer.writerows([f"pics/x/{i}.png", "odd" if i % 2 else "even", "val" if i > 1 else "train"] for i in range(4))
    train, val = training_data(str(tmp_path / "t.csv"))
    assert train.classes == ("even", "odd")
    assert (train.labels.tolist(), val.labels.tolist()) == ([0, 1], [0, 1])
    assert np.asarray(val.opener(1)).mean() == 3


def test_a_missing_file_of_a_table_is_a_broken_image(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\nnone.png,a\n")
    with pytest.raises(ValueError, match=r"no image file at .*none.png"):
        read_source(str(tmp_path / "t.csv"))["all"].opener(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\n", "path,label"),
        ("path,label\n", "lists no images"),
        ("path,label\na.png,\n", "no label for a.png"),
    ],
)
def test_bad_tables_say_what_is_wrong(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_source(str(tmp_path / "t.csv"))


def test_packs_of_files(tmp_path):
    files = [png(shade) for shade in (10, 20, 30)]
    offset = np.cumsum([0, *map(len, files)])
    data = np.frombuffer(b"".join(files), np.uint8)
    splits = np.array(["train", "train", "test"])
    names = np.array(["dark", "light"])
    np.savez(tmp_path / "p.npz", data=data, offset=offset, label=[0, 1, 1], classes=names, split=splits)
    train, val = training_data(str(tmp_path / "p.npz"))
    assert train.classes == ("dark", "light")
    assert np.asarray(train.opener(1)).mean() == 20
    assert np.asarray(val.opener(0)).mean() == 30
    assert val.labels.tolist() == [1]


def test_packs_of_sheets(tmp_path):
    """ImageLike i of a sheet is in row i // 100, column i % 100."""
    numbers = np.arange(10_000, dtype=np.uint32).reshape(100, 100)
    sheet = np.stack([numbers % 256, numbers // 256, numbers * 0], axis=2).astype(np.uint8).repeat(2, 0).repeat(2, 1)
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, "PNG")
    labels = np.arange(10_000) % 10
    np.savez(tmp_path / "s.npz", sheet0=np.frombuffer(stream.getvalue(), np.uint8), label=labels)
    images = read_source(str(tmp_path / "s.npz"))["all"]
    assert len(images) == 10_000
    assert np.asarray(images.opener(4321)).shape == (2, 2, 3)
    assert np.asarray(images.opener(4321))[0, 0].tolist() == [4321 % 256, 4321 // 256, 0]


def test_packs_of_pixels(tmp_path):
    pixels = np.arange(6, dtype=np.uint8).reshape(6, 1, 1).repeat(4, 1).repeat(5, 2)
    np.savez(tmp_path / "x.npz", x_train=pixels, y_train=np.arange(6) % 2, x_test=pixels[:2], y_test=[1, 0])
    train, val = training_data(str(tmp_path / "x.npz"))
    assert train.opener(5).size == (5, 4)
    assert (len(train), len(val), train.classes) == (6, 2, ("0", "1"))


def test_packs_with_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "bad.npz", data=np.array([{}], dtype=object), offset=[0, 1], label=[0])
    with pytest.raises(ValueError, match="without pickles"):
        read_source(str(tmp_path / "bad.npz"))


def test_shards_are_read_at_random(tmp_path):
    for shard in range(2):
        with tarfile.open(tmp_path / f"part-{shard:02}.tar", "w") as archive:
            for i in range(3):
                for suffix, content in (("png", png(10 * shard + i)), ("cls", str(i).encode())):
                    member = tarfile.TarInfo(f"{shard}{i}.{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    images = read_source(f"wds/{tmp_path}/part-{{00..01}}.tar")["all"]
    assert images.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert [np.asarray(images.opener(i)).mean() for i in (4, 0, 5)] == [11, 0, 12]
    assert len(read_source(f"wds/{tmp_path}/part-*.tar")["all"]) == 6


def test_torchvision_data_sets_by_name(tmp_path, monkeypatch):
    """MNIST in torchvision's own layout, so that nothing is downloaded."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("train", 4), ("t10k", 2)):
        pixels = np.arange(count, dtype=np.uint8).repeat(28 * 28)
        images = np.array([0x803, count, 28, 28], ">i4").tobytes() + pixels.tobytes()
        labels = np.array([0x801, count], ">i4").tobytes() + bytes(range(count))
        for kind, content in (("images-idx3", images), ("labels-idx1", labels)):
            (raw / f"{part}-{kind}-ubyte").write_bytes(content)
            (raw / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr("spectral_vmamba.data.readers.timm_datasets._HOME", tmp_path)
    train, val = training_data("torch/mnist")
    assert (len(train), len(val), len(train.classes)) == (4, 2, 10)
    assert np.asarray(train.opener(3)).mean() == 3
    assert train.opener(3).mode == "RGB"


def test_the_digits_come_with_the_package():
    images = digits()
    assert len(images) == 1797
    assert images.classes == tuple("0123456789")
    shades = np.asarray(images.opener(0))
    assert shades.shape == (8, 8, 3)
    assert shades.max() > 200


def test_another_source_to_validate_on(tmp_path):
    folder_of(tmp_path / "one", {"a": 2, "b": 2})
    folder_of(tmp_path / "two", {"b": 3})
    train, val = training_data(str(tmp_path / "one"), val=str(tmp_path / "two"))
    assert len(train) == 4
    assert val.labels.tolist() == [1, 1, 1]
    assert len(validation_data(str(tmp_path / "one"))) == 4


@pytest.mark.parametrize("make", ["empty", "missing", "text"])
def test_no_images_is_an_error_that_says_what_was_expected(tmp_path, make):
    path = tmp_path / make
    if make == "empty":
        path.mkdir()
        with pytest.raises(ValueError, match="one folder for every class"):
            read_source(str(path))
    elif make == "missing":
        with pytest.raises(FileNotFoundError, match="expected a folder of images"):
            read_source(str(path))
    else:
        path.write_text("hello")
        with pytest.raises(ValueError, match=r"a folder, a \.csv or a \.npz"):
            read_source(str(path))


def test_the_mini_imagenet_protocol():
    """So many of every class, none in both parts, the same for the same seed."""
    images = of_pixels(np.zeros((60, 1, 1)), np.arange(60) % 3, "p")
    train, val = split_counts(images, 10, 5, seed=0)
    assert np.bincount(train.labels).tolist() == [10, 10, 10]
    assert np.bincount(val.labels).tolist() == [5, 5, 5]
    assert not set(train.names) & set(val.names)
    assert split_counts(images, 10, 5, seed=0)[0].names == train.names
    with pytest.raises(ValueError, match="3 classes have fewer than 30 images: 0 has 20"):
        split_counts(images, 20, 10, seed=0)


def test_a_class_of_one_image_cannot_be_divided():
    with pytest.raises(ValueError, match="at least 2 images of every class"):
        split_fraction(of_pixels(np.zeros((3, 1, 1)), np.array([0, 0, 1]), "p"), 0.5, 0)


def test_the_fingerprint_notices_what_changes(tmp_path):
    folder_of(tmp_path, {"a": 2, "b": 2})
    before = read_source(str(tmp_path))["all"].fingerprint()
    assert read_source(str(tmp_path))["all"].fingerprint() == before
    image(77, size=9).save(tmp_path / "a" / "0.png")
    assert read_source(str(tmp_path))["all"].fingerprint() != before
