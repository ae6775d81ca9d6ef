from pathlib import Path

import pytest

from spectral_vmamba.cli import main
from tests.support.commands import SMALL_NETWORK, write_digit_folders
from tests.support.image_folders import write_photographs


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="session")
def digit_folders(tmp_path_factory) -> Path:
    """200 digits as PNG files, one folder per class."""
    root = tmp_path_factory.mktemp("digits")
    write_digit_folders(root)
    return root


@pytest.fixture(scope="session")
def run_folder(digit_folders, tmp_path_factory) -> Path:
    """A run of `spectral-vmamba train` on the digits."""
    output = tmp_path_factory.mktemp("runs") / "photos"
    options = ["--data", str(digit_folders), "--output", str(output), "--epochs", "2", "--workers", "0"]
    assert main(["train", "--recipe", "laptop", *options, *SMALL_NETWORK]) == 0
    return output


@pytest.fixture(scope="session")
def photo_folders(tmp_path_factory) -> Path:
    """Eight crops of photographs as PNG files, in two folders."""
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, 8)
    return root


@pytest.fixture(scope="session")
def embeddings(photo_folders, tmp_path_factory) -> Path:
    """The output folder of `spectral-vmamba embed` for the photographs."""
    output = tmp_path_factory.mktemp("vectors")
    options = ["--shard-size", "3", "--image-size", "64"]
    assert main(["embed", str(photo_folders), "-o", str(output), *options]) == 0
    return output
