"""Searching real photographs: the same answer for every quarter turn of the query, and the right one."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.plots.contact_sheet import plot_contact_sheet
from spectral_vmamba.retrieval import EmbedConfig, embed, search
from spectral_vmamba.retrieval.search import nearest, open_index
from spectral_vmamba.retrieval.thumbnails import found_images
from spectral_vmamba.training import fit
from tests.support.image_folders import write_photographs
from tests.support.runs import few_digits, small

COUNT = 16


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
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
        answers = [search(index, image.transpose(way), top=17) for way in Image.Transpose if way.name[:3] == "ROT"]
        assert len(answers) == 3
        (upright,) = search(index, image, top=17)
        assert upright[0].file == name.replace("03.png", "03 again.png")
        assert upright[0].similarity == pytest.approx(1, abs=1e-6)
        assert all(answer == [upright] for answer in answers), "the same files with the same bits of similarity"


def test_equals_come_in_the_order_of_their_names(photos, index):
    (hits,) = search(index, photos / "odd" / "03.png", top=3)
    assert [hit.file for hit in hits[:2]] == ["odd/03 again.png", "odd/03.png"]
    assert hits[0].similarity == hits[1].similarity
    (only,) = search(index, photos / "odd" / "03.png", top=1)
    assert only == hits[:1]


def test_the_order_of_names_is_not_that_of_the_collection(photos, tmp_path):
    names = sorted((str(path) for path in photos.rglob("03*.png")), reverse=True)
    (tmp_path / "list.txt").write_text("\n".join(names))
    for size in (1, 2):
        embed(EmbedConfig(str(tmp_path / "list.txt"), str(tmp_path / f"{size}"), shard_size=size, image_size=64))
        for top in (1, 2):
            (hits,) = search(tmp_path / f"{size}", names[0], top=top)
            assert [hit.file for hit in hits] == sorted(names)[:top]


def test_the_running_best_is_the_best_of_all(index):
    """Against sorting everything at once."""
    blocks = list(index.blocks())
    files = [file for block in blocks for file in block[0]]
    vectors = np.concatenate([block[2] for block in blocks])
    for query in vectors[::5]:
        similarities = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        every = sorted(zip((-similarities).tolist(), files, strict=True))
        for top in (1, 7, 100):
            (hits,) = nearest(index, [query], top)
            assert [(-hit.similarity, hit.file) for hit in hits] == every[:top]
            assert [hit.rank for hit in hits] == list(range(1, min(top, COUNT + 1) + 1))


def test_arrays_are_searched_too(photos, embeddings, tmp_path):
    embed(EmbedConfig(str(photos), str(tmp_path), format="npy", shard_size=6, image_size=64))
    query = photos / "even" / "04.png"
    assert search(tmp_path, query, top=5) == search(embeddings, query, top=5)
    lines = (tmp_path / "images.csv").read_text().splitlines()
    (tmp_path / "images.csv").write_text("\n".join(lines[:4]))
    with pytest.raises(ValueError, match=r"images.csv ends before vectors.npy does"):
        search(tmp_path, query)


def test_damage_is_said(photos, embeddings, tmp_path):
    for path in embeddings.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"part-00001.parquet is damaged.*run embed again"):
        search(tmp_path, photos / "even" / "04.png")
    with pytest.raises(FileNotFoundError, match="no embeddings in"):
        open_index(photos)


def test_other_weights_are_refused(tmp_path):
    settings = small(tmp_path / "run", epochs=1)
    run = fit(settings).folder
    pack = str(few_digits(tmp_path))
    embed(EmbedConfig(pack, str(tmp_path / "out"), checkpoint=str(run)))
    index = open_index(tmp_path / "out")
    with np.load(pack) as stored:
        query = stored["x_test"][7]
    (hits,) = search(index, query, top=4)
    assert hits[0].similarity == pytest.approx(1, abs=1e-6)
    assert "val/few_digits#7" in [hit.file for hit in hits]
    tiles = found_images(index, [(query, hits)])
    assert all(tile.image is not None for tile in tiles[0]), "images of a pack come from the pack"
    fit(replace(settings, seed=1, output=str(tmp_path / "other")))
    (tmp_path / "other" / "best.safetensors").replace(run / "best.safetensors")
    with pytest.raises(ValueError, match="run now holds other weights than those that made"):
        open_index(tmp_path / "out")


def test_the_contact_sheet(photos, index, tmp_path):
    (hits,) = search(index, photos / "even" / "00.png", top=10)
    gone = [replace(hits[0], file="no/such $file$.png"), *hits[1:]]
    rows = found_images(index, [(str(photos / "even" / "00.png"), gone)])
    assert [tile.image is None for tile in rows[0]] == [False, True] + [False] * 9
    assert rows[0][2].title.startswith(f"2: {hits[1].similarity:.3f} ")
    plot_contact_sheet(rows).savefig(tmp_path / "sheet.png")
    assert Image.open(tmp_path / "sheet.png").size[0] > 600
