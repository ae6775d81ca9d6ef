"""Search photographs: quarter turns of the query change nothing, and the most similar images come first."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.retrieval import EmbedConfig, embed, search
from spectral_vmamba.retrieval.search import nearest, open_index, search_named
from spectral_vmamba.retrieval.thumbnails import make_thumbnails
from spectral_vmamba.training import SilentReporter, fit
from tests.support.image_folders import write_photographs
from tests.support.runs import digits_config, write_digits
from tests.support.storages import make_unreadable

COUNT = 16


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """16 photographs and a copy of one."""
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, COUNT)
    (root / "odd" / "03 again.png").write_bytes((root / "odd" / "03.png").read_bytes())
    return root


@pytest.fixture(scope="module")
def embeddings(photos, tmp_path_factory):
    output = tmp_path_factory.mktemp("embeddings")
    embed(EmbedConfig(str(photos), str(output), shard_size=6, image_size=64))
    return output


@pytest.fixture(scope="module")
def index(embeddings):
    return open_index(embeddings)


def test_turning_the_query_changes_nothing(photos, index):
    for name in ("even/00.png", "odd/03.png", "odd/05.png"):
        image = Image.open(photos / name)
        results = [search(index, image.transpose(way), top=17) for way in Image.Transpose if way.name[:3] == "ROT"]
        assert len(results) == 3
        (upright,) = search(index, image, top=17)
        assert upright[0].file == name.replace("03.png", "03 again.png")
        assert upright[0].similarity == pytest.approx(1, abs=5e-7)  # measured: 6e-8
        assert all(result == [upright] for result in results), "the same files with the same bits of similarity"


def test_equal_images_are_ordered_by_name(photos, index):
    (hits,) = search(index, photos / "odd" / "03.png", top=3)
    assert [hit.file for hit in hits[:2]] == ["odd/03 again.png", "odd/03.png"]
    assert hits[0].similarity == hits[1].similarity
    (only,) = search(index, photos / "odd" / "03.png", top=1)
    assert only == hits[:1]


@pytest.mark.full
def test_the_order_of_equal_images_does_not_depend_on_the_source(photos, tmp_path):
    names = sorted((str(path) for path in photos.rglob("03*.png")), reverse=True)
    (tmp_path / "list.txt").write_text("\n".join(names))
    for size in (1, 2):
        embed(EmbedConfig(str(tmp_path / "list.txt"), str(tmp_path / f"{size}"), shard_size=size, image_size=64))
        for top in (1, 2):
            (hits,) = search(tmp_path / f"{size}", names[0], top=top)
            assert [hit.file for hit in hits] == sorted(names)[:top]


def test_the_hits_are_those_of_sorting_all_images(index):
    blocks = list(index.blocks())
    files = [file for block in blocks for file in block[0]]
    vectors = np.concatenate([block[2] for block in blocks])
    for query in vectors[::5]:
        similarities = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        expected = sorted(zip((-similarities).tolist(), files, strict=True))
        for top in (1, 7, 100):
            (hits,) = nearest(index, [query], top)
            assert [(-hit.similarity, hit.file) for hit in hits] == expected[:top]
            assert [hit.rank for hit in hits] == list(range(1, min(top, COUNT + 1) + 1))


def test_unreadable_queries_are_reported_in_their_place(photos, index, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    names = [str(photos / "even" / "00.png"), str(tmp_path / "bad.png"), str(photos / "odd" / "05.png")]
    results = search_named(index, find_images(names), top=2)
    assert [image.name for image, _ in results] == names
    assert results[1][1] == ReadError(0, names[1], f"{names[1]} cannot be read as an image: unknown format")
    assert [hits for _, hits in (results[0], results[2])] == search(index, [names[0], names[2]], top=2)
    with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image"):
        search(index, names)
    with pytest.raises(ValueError, match="top of at least 1, got 0"):
        search(index, names[0], top=0)


@pytest.mark.full
def test_arrays_are_searched_too(photos, embeddings, tmp_path):
    embed(EmbedConfig(str(photos), str(tmp_path), format="npy", shard_size=6, image_size=64))
    query = photos / "even" / "04.png"
    assert search(tmp_path, query, top=5) == search(embeddings, query, top=5)
    lines = (tmp_path / "images.csv").read_text().splitlines()
    (tmp_path / "images.csv").write_text("\n".join(lines[:4]))
    with pytest.raises(ValueError, match=r"images.csv ends before vectors.npy does"):
        search(tmp_path, query)


def test_damaged_missing_and_empty_embeddings_are_reported(photos, embeddings, tmp_path):
    for path in embeddings.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"part-00001.parquet is damaged.*run embed again"):
        search(tmp_path, photos / "even" / "04.png")
    with pytest.raises(FileNotFoundError, match="no embeddings in"):
        open_index(photos)
    nothing = make_unreadable(read_digits().subset(np.arange(1)), 0)
    embed(EmbedConfig("digits", str(tmp_path / "empty"), image_size=64), nothing)
    with pytest.raises(ValueError, match=r"no image of .*empty could be read; unreadable\.txt there lists"):
        open_index(tmp_path / "empty")


def test_other_weights_are_rejected(tmp_path):
    config = digits_config(tmp_path / "run", epochs=1)
    run = fit(config, reporter=SilentReporter()).folder
    pack = str(write_digits(tmp_path))
    embed(EmbedConfig(pack, str(tmp_path / "out"), checkpoint=str(run)))
    index = open_index(tmp_path / "out")
    with np.load(pack) as stored:
        query = stored["x_test"][7]
    (hits,) = search(index, query, top=4)
    assert hits[0].similarity == pytest.approx(1, abs=5e-7)  # measured: 6e-8
    assert "val/few_digits#7" in [hit.file for hit in hits]
    (query_image,) = find_images([pack])
    rows = make_thumbnails(index, [(query_image, hits)])
    assert all(thumbnail.image is not None for thumbnail in rows[0][1:]), "images of a pack come from the pack"
    fit(replace(config, seed=1, output=str(tmp_path / "other")), reporter=SilentReporter())
    (tmp_path / "other" / "best.safetensors").replace(run / "best.safetensors")
    with pytest.raises(ValueError, match="run has other weights than those that made"):
        open_index(tmp_path / "out")
