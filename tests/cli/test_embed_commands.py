"""`embed` and `search` as a person uses them."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main
from tests.support.image_folders import write_photographs

SMALL = ["--image-size", "64"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, 8)
    return root


@pytest.fixture(scope="module")
def embeddings(photos, tmp_path_factory):
    output = tmp_path_factory.mktemp("vectors")
    assert main(["embed", str(photos), "-o", str(output), "--shard-size", "3", *SMALL]) == 0
    return output


def test_embed_says_what_it_did_and_does_it_once(photos, embeddings, capsys):
    arguments = ["embed", str(photos), "-o", str(embeddings), *SMALL]
    assert main([*arguments, "--shard-size", "3"]) == 0
    assert f"8 images, vectors of length 224, all there already, in {embeddings}" in capsys.readouterr().out
    assert main(arguments) == 1
    assert "shard_size 3 (now 4096)" in capsys.readouterr().err


def test_broken_images_end_with_1(photos, tmp_path, capsys, monkeypatch):
    (tmp_path / "bad.png").write_bytes(b"no image")
    names = [str(photos / "even"), str(tmp_path / "bad.png"), str(tmp_path / "*.gif")]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(names) + "\n"))
    assert main(["embed", "-", "-o", str(tmp_path / "out"), "--format", "npy", *SMALL]) == 1
    said = capsys.readouterr()
    assert "4 images, vectors of length 224" in said.out
    assert "images/s" in said.out
    assert "bad.png cannot be read as an image" in said.err
    assert "2 images cannot be read; all are in" in said.err
    assert np.load(tmp_path / "out" / "vectors.npy").shape == (4, 224)
    assert len((tmp_path / "out" / "broken.txt").read_text().splitlines()) == 2


def test_search_prints_tables_json_and_csv(photos, embeddings, tmp_path, capsys):
    query = str(photos / "odd" / "05.png")
    turned = str(tmp_path / "turned.png")
    Image.open(query).transpose(Image.Transpose.ROTATE_90).save(turned)
    assert main(["search", str(embeddings), query, turned, "--top", "3", "--format", "jsonl"]) == 0
    upright, other = map(json.loads, capsys.readouterr().out.splitlines())
    assert (upright["query"], other["query"]) == (query, turned)
    assert upright["hits"] == other["hits"]
    assert upright["hits"][0]["file"] == "odd/05.png"
    assert upright["hits"][0]["label"] == "odd"
    assert main(["search", str(embeddings), turned, "--top", "3", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["similarity"]) for row in rows] == [hit["similarity"] for hit in upright["hits"]]
    assert main(["search", str(embeddings), turned, "--sheet", str(tmp_path / "new" / "sheet.png")]) == 0
    assert "1.0000" in capsys.readouterr().out
    assert Image.open(tmp_path / "new" / "sheet.png").size[0] > 600


def test_search_answers_the_others_when_some_are_broken(photos, embeddings, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"no image")
    names = [str(tmp_path / "bad.png"), str(tmp_path / "none.png"), str(photos / "odd" / "01.png")]
    assert main(["search", str(embeddings), *names, "--format", "jsonl", "--top", "1"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["hits"][0]["file"] == "odd/01.png"
    assert "bad.png cannot be read" in said.err
    assert "no image file at" in said.err
    assert main(["search", str(photos), names[-1]]) == 1
    assert "no embeddings in" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["embed", "search"])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"spectral-vmamba {command} photos" in capsys.readouterr().out
