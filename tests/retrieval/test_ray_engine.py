"""A real Ray cluster on this machine; one of its workers is killed: the files are the same as without Ray."""

import os
import signal

import pytest

from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.retrieval import EmbedConfig, embed
from tests.retrieval.conftest import read_shards
from tests.support.image_folders import write_photographs

ray = pytest.importorskip("ray")
COUNT, SHARD_SIZE = 40, 5


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def photo_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, COUNT)
    (root / "odd" / "bad.png").write_bytes(b"no image")
    return root


def is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.full
def test_nothing_is_lost_or_duplicated_when_a_worker_is_killed(cluster, photo_folder, tmp_path):
    settings = {"shard_size": SHARD_SIZE, "features": "stem", "tokens": True, "image_size": 64}
    embed(EmbedConfig(str(photo_folder), str(tmp_path / "local"), **settings))
    killed, shards, processes = [], [], set()

    def kill_the_first(rows, description, total):
        for row in rows:
            shards.append(row["shard"])
            processes.add(row["process"])
            if not killed:
                assert is_alive(row["process"])
                os.kill(row["process"], signal.SIGKILL)
                killed.append(row["process"])
            yield row

    config = EmbedConfig(str(photo_folder), str(tmp_path / "ray"), engine="ray", workers=2, **settings)
    result = embed(config, progress=kill_the_first)
    assert sorted(shards) == list(range(9))
    assert killed
    assert not is_alive(killed[0])
    assert len(processes) >= 2, "another process took over the work of the killed one"
    reason = f"{photo_folder}/odd/bad.png cannot be read as an image: unknown format"
    assert (result.images, result.unreadable) == (COUNT, [ReadError(40, "odd/bad.png", reason)])
    names = sorted(path.name for path in (tmp_path / "local").iterdir())
    assert sorted(path.name for path in (tmp_path / "ray").iterdir()) == names
    for name in names:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name
    files = [file for shard in read_shards(tmp_path / "ray") for file in shard.files]
    assert len(files) == len(set(files)) == COUNT
