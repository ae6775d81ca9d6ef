"""Images named on a command line. URLs are downloaded only if that is allowed."""

import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest
from PIL import Image

from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning


@pytest.fixture
def server(tmp_path):
    """An HTTP server on this machine."""
    Image.new("RGB", (5, 4), (9, 8, 7)).save(tmp_path / "a.png")
    server = HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_urls_are_downloaded_only_if_allowed(server, capfd):
    (refused,) = find_images([f"{server}/a.png"])
    with pytest.raises(ValueError, match="requires --allow-urls"):
        refused.open()
    assert "GET" not in capfd.readouterr().err, "the server logs every request"
    image, missing = find_images([f"{server}/a.png", f"{server}/none.png"], allow_urls=True)
    assert image.open().size == (5, 4)
    with pytest.raises(OSError, match="404"):
        missing.open()


def test_downloads_are_limited(server, monkeypatch, capfd):
    monkeypatch.setattr("spectral_vmamba.data.find._LARGEST_DOWNLOAD", 10)
    (image,) = find_images([f"{server}/a.png"], allow_urls=True)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        image.open()


def test_folders_patterns_and_files_keep_their_order(tmp_path):
    for name in ("b.png", "a.jpg", "sub/c.tif", ".hidden/d.png", "text.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.warns(SkippedFilesWarning, match="1 file skipped: 1 .txt"):
        found = list(find_images([str(tmp_path), f"{tmp_path}/*.png", f"{tmp_path}/text.txt"]))
    names = [image.name for image in found]
    assert names == [str(tmp_path / name) for name in ("a.jpg", "b.png", "sub/c.tif", "b.png", "text.txt")]


def test_names_that_match_nothing_fail_when_opened(tmp_path):
    (tmp_path / "empty").mkdir()
    patterns = [f"{tmp_path}/*.gif", f"{tmp_path}/empty", f"{tmp_path}/none.png"]
    found = list(find_images(patterns))
    assert [image.name for image in found] == patterns
    for image, message in zip(found, ("nothing matches", "no images in", "no image file at"), strict=True):
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            image.open()


def test_brackets_in_the_name_of_an_existing_file_are_not_a_pattern(tmp_path):
    Image.new("RGB", (3, 2)).save(tmp_path / "a[1].png")
    (image,) = find_images([str(tmp_path / "a[1].png")])
    assert image.open().size == (3, 2)
