"""Names become images; addresses only where they are allowed."""

import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest
from PIL import Image

from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.find import find_images


@pytest.fixture
def server(tmp_path):
    """A real server on this machine."""
    Image.new("RGB", (5, 4), (9, 8, 7)).save(tmp_path / "a.png")
    served = HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def test_addresses_are_fetched_only_when_allowed(server, capfd):
    ((_, refused),) = find_images([f"{server}/a.png"])
    assert isinstance(refused, ValueError)
    (_, fetched), (_, missing) = find_images([f"{server}/a.png", f"{server}/none.png"], allow_urls=True)
    assert decode_image(fetched).size == (5, 4)
    assert isinstance(missing, OSError)
    assert "404" in str(missing)


def test_more_than_the_limit_is_not_read(server, monkeypatch, capfd):
    monkeypatch.setattr("spectral_vmamba.data.find._LARGEST_DOWNLOAD", 10)
    ((_, refused),) = find_images([f"{server}/a.png"], allow_urls=True)
    assert "more than the 10 bytes" in str(refused)


def test_folders_patterns_and_files_keep_their_order(tmp_path):
    for name in ("b.png", "a.jpg", "sub/c.tif", ".hidden/d.png", "text.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [name for name, _ in find_images([str(tmp_path), str(tmp_path / "*.png"), str(tmp_path / "text.txt")])]
    assert found == [str(tmp_path / name) for name in ("a.jpg", "b.png", "sub/c.tif", "b.png", "text.txt")]
    assert isinstance(next(find_images([str(tmp_path / "*.gif")]))[1], FileNotFoundError)
