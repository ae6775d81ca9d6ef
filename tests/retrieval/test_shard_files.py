"""Shards in both formats."""

import numpy as np
import pytest

from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.retrieval.shard_files import FORMATS, DamagedShard, Shard


def make_shard(count: int, with_tokens: bool) -> Shard:
    generator = np.random.default_rng(0)
    return Shard(
        files=[f"ü{i}.png" for i in range(count)],
        widths=list(range(count)),
        heights=list(range(10, 10 + count)),
        labels=[None if i % 2 else "cat" for i in range(count)],
        vectors=generator.random((count, 6), np.float32),
        tokens=generator.random((count, 4, 3), np.float32).astype(np.float16) if with_tokens else None,
        cells=np.array([[0, 1], [0, 2], [1, 1], [1, 2]], np.int16) if with_tokens else None,
        unreadable=[ReadError(7, "bad.png", "damaged")],
        settings_digest="abc",
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("with_tokens", [False, True])
def test_round_trip(tmp_path, name, count, with_tokens):
    shard, path = make_shard(count, with_tokens), tmp_path / "part"
    FORMATS[name].write(path, shard)
    stored = FORMATS[name].read(path, True)
    for field in ("files", "widths", "heights", "labels", "unreadable", "settings_digest"):
        assert getattr(stored, field) == getattr(shard, field)
    assert np.array_equal(stored.vectors, shard.vectors)
    assert stored.vectors.dtype == np.float32
    if with_tokens and count:
        assert np.array_equal(stored.tokens, shard.tokens)
        assert np.array_equal(stored.cells, shard.cells)
    assert FORMATS[name].read(path, False).tokens is None


@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_noticed(tmp_path, name):
    path = tmp_path / "part"
    FORMATS[name].write(path, make_shard(50, True))
    intact = path.read_bytes()
    flipped = bytearray(intact)
    flipped[len(intact) // 3] ^= 1
    for damaged in (intact[:-9], bytes(flipped), b"", b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(DamagedShard, match="part is damaged"):
            FORMATS[name].read(path, True)
    path.unlink()
    with pytest.raises(DamagedShard, match="part is damaged"):
        FORMATS[name].read(path, True)
