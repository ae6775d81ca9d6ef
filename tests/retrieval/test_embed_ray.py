"""A real Ray cluster on this machine, one of its workers killed in the middle: the same files as without it."""

import os
import signal

import pytest

from spectral_vmamba.retrieval import EmbedConfig, embed
from spectral_vmamba.retrieval.store import OutputFolder, read_facts
from tests.support.image_folders import write_photographs

ray = pytest.importorskip("ray")
COUNT, SHARD = 40, 5


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, COUNT)
    (root / "odd" / "bad.png").write_bytes(b"no image")
    return root


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_lost_or_doubled_when_a_worker_is_killed(cluster, photos, tmp_path):
    settings = {"shard_size": SHARD, "tokens": True, "image_size": 64}
    embed(EmbedConfig(str(photos), str(tmp_path / "local"), **settings))
    killed, shards, processes = [], [], set()

    def kill_the_first(rows, told, total):
        for row in rows:
            shards.append(row["shard"])
            processes.add(row["process"])
            if not killed:
                assert alive(row["process"])
                os.kill(row["process"], signal.SIGKILL)
                killed.append(row["process"])
            yield row

    done = embed(
        EmbedConfig(str(photos), str(tmp_path / "ray"), engine="ray", workers=2, **settings), progress=kill_the_first
    )
    assert sorted(shards) == list(range(9))
    assert killed
    assert not alive(killed[0])
    assert len(processes) >= 2, "another process did what the killed one would have done"
    assert (done.images, [name for name, _ in done.broken]) == (COUNT, ["odd/bad.png"])
    names = sorted(path.name for path in (tmp_path / "local").iterdir())
    assert sorted(path.name for path in (tmp_path / "ray").iterdir()) == names
    for name in names:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name
    files = [
        file for shard in OutputFolder(tmp_path / "ray", read_facts(tmp_path / "ray")).shards() for file in shard.files
    ]
    assert len(files) == len(set(files)) == COUNT
