"""The images below a folder, and what is skipped there."""

import warnings

import pytest

from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.readers import folder_listing
from spectral_vmamba.data.readers.folder import read_folder, read_partly_labeled_folder, read_unlabeled_folder
from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning, list_folder
from tests.support.image_folders import gray_image, write_class_folders


@pytest.fixture(autouse=True)
def _without_heif(monkeypatch):
    """As without pillow-heif, which the extra `heic` installs."""
    monkeypatch.setattr(folder_listing, "find_spec", lambda name: None)


@pytest.fixture
def untidy(tmp_path):
    """Two classes with two images each, and everything that is skipped."""
    write_class_folders(tmp_path, {"a": 2, "b": 2, "x": 0})
    for name in ("noext", "phone.HEIC", "notes.txt", "more.txt", ".DS_Store"):
        (tmp_path / "a" / name).write_bytes(b"?")
    (tmp_path / "b" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "b" / "linked").symlink_to(tmp_path / "a", target_is_directory=True)
    gray_image(0).save(tmp_path / "loose.png")
    return tmp_path


FILES = "2 .txt, 1 without a suffix, 1 .heic, 1 broken link"
HEIC = "to read HEIC images, pip install 'spectral-vmamba[heic]'"


def warning_of(function, folder) -> str:
    with pytest.warns(SkippedFilesWarning) as caught:
        function(folder)
    assert len(caught) == 1
    return str(caught[0].message).removeprefix(f"{folder}: ")


def sorted_files(text: str) -> list[str]:
    """The files that a warning counts; equal counts are in the order of the folder."""
    return sorted(text.partition("skipped: ")[2].partition(";")[0].split(", "))


def test_skipped_files_are_counted_once(untidy):
    text = warning_of(read_folder, untidy)
    assert text.startswith("6 files skipped: 2 .txt, ")
    assert sorted_files(text) == sorted([*FILES.split(", "), "1 image outside the class folders"])
    assert text.endswith(f"; 1 class folder without images: x; 1 link to a folder not followed; {HEIC}")


@pytest.mark.parametrize("read", [read_unlabeled_folder, read_partly_labeled_folder])
def test_folders_without_labels_have_no_loose_images(untidy, read):
    text = warning_of(read, untidy)
    assert sorted_files(text) == sorted(FILES.split(", "))
    assert text.endswith(f"; 1 link to a folder not followed; {HEIC}")


def test_folders_on_the_command_line_are_reported_too(untidy):
    text = warning_of(lambda folder: list(find_images([str(folder)])), untidy)
    assert text.startswith("5 files skipped: ")


def test_nothing_is_said_about_a_tidy_folder(tmp_path):
    write_class_folders(tmp_path, {"a": 2, "b": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_folder(tmp_path)


def test_a_folder_without_images_says_what_is_there(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.heic").write_bytes(b"?")
    with pytest.raises(ValueError, match=r"no images in .* \(1 file skipped: 1 .heic; .*spectral-vmamba\[heic\]'\)"):
        read_folder(tmp_path)
    with pytest.raises(ValueError, match=r"no images in .* \(1 file skipped: 1 .heic; "):
        read_unlabeled_folder(tmp_path)


def test_heic_files_are_images_if_they_can_be_read(tmp_path, monkeypatch):
    (tmp_path / "1.heic").write_bytes(b"?")
    assert list_folder(tmp_path)[0] == []
    monkeypatch.setattr(folder_listing, "find_spec", lambda name: name)
    assert list_folder(tmp_path)[0] == [tmp_path / "1.heic"]
