"""Thumbnails of search results."""

from dataclasses import replace

from spectral_vmamba.data.find import find_images
from spectral_vmamba.retrieval import search
from spectral_vmamba.retrieval.search import open_index
from spectral_vmamba.retrieval.thumbnails import make_thumbnails


def test_thumbnails_of_the_query_and_of_its_hits(photos, embeddings):
    index = open_index(embeddings)
    (query,) = find_images([str(photos / "even" / "00.png")])
    (hits,) = search(index, photos / "even" / "00.png", top=10)
    (row,) = make_thumbnails(index, [(query, [replace(hits[0], file="no/such $file$.png"), *hits[1:]])])
    assert [thumbnail.image is None for thumbnail in row] == [False, True] + [False] * 9
    assert (row[0].title, row[0].name) == ("query", query.name)
    assert (row[2].title, row[2].label) == (f"2: {hits[1].similarity:.3f}", hits[1].label)
    assert row[2].name == hits[1].file
    assert row[2].image.shape == (128, 128, 3)


def test_missing_images_have_no_thumbnail(photos, embeddings, tmp_path):
    index = open_index(embeddings)
    (hits,) = search(index, photos / "even" / "00.png", top=1)
    (query,) = find_images([str(tmp_path / "none.png")])
    gone = replace(index, metadata=replace(index.metadata, root=None, source=str(tmp_path / "gone.npz")))
    (row,) = make_thumbnails(gone, [(query, hits)])
    assert [thumbnail.image for thumbnail in row] == [None, None]
