"""Shards of tar files, read at random positions."""

import io
import tarfile

import numpy as np
import pytest

from spectral_vmamba.data.sources import read_source
from tests.support.image_folders import png_bytes


def write_shard(path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_images_are_read_in_any_order(tmp_path):
    for shard in range(2):
        images = {f"{shard}{i}.png": png_bytes(10 * shard + i) for i in range(3)}
        labels = {f"{shard}{i}.cls": str(i).encode() for i in range(3)}
        write_shard(tmp_path / f"part-{shard:02}.tar", images | labels)
    dataset = read_source(f"wds/{tmp_path}/part-{{00..01}}.tar")["all"]
    assert dataset.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert [np.asarray(dataset.open(i)).mean() for i in (4, 0, 5)] == [11, 0, 12]
    assert dataset.storage.content(4) == png_bytes(11)
    assert len(read_source(f"wds/{tmp_path}/part-*.tar")["all"]) == 6


def test_wrong_shards_explain_what_is_wrong(tmp_path):
    with pytest.raises(ValueError, match="no tar files at"):
        read_source(f"wds/{tmp_path}/*.tar")
    write_shard(tmp_path / "a.tar", {"0.png": png_bytes(0)})
    with pytest.raises(ValueError, match=r"no 0\.cls next to the image"):
        read_source(f"wds/{tmp_path}/a.tar")
    write_shard(tmp_path / "a.tar", {"0.txt": b""})
    with pytest.raises(ValueError, match=r"no images with a \.cls file"):
        read_source(f"wds/{tmp_path}/a.tar")
    (tmp_path / "a.tar").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="cannot be read as an uncompressed tar file"):
        read_source(f"wds/{tmp_path}/a.tar")
