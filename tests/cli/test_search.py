"""`spectral-vmamba search`."""

import csv
import io
import json

from PIL import Image

from spectral_vmamba.cli import main


def test_tables_json_lines_csv_and_a_contact_sheet(photo_folders, embeddings, tmp_path, capsys):
    query = str(photo_folders / "odd" / "05.png")
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
    sheet = tmp_path / "new" / "sheet.png"
    assert main(["search", str(embeddings), turned, "--sheet", str(sheet)]) == 0
    captured = capsys.readouterr()
    assert f"most similar to {turned}" in captured.out
    assert "1.0000" in captured.out
    assert f"wrote {sheet}" in captured.err
    assert Image.open(sheet).size[0] > 600


def test_unreadable_images_are_reported_and_the_others_searched(photo_folders, embeddings, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"not an image")
    names = [str(tmp_path / "bad.png"), str(tmp_path / "none.png"), str(photo_folders / "odd" / "01.png")]
    assert main(["search", str(embeddings), *names, "--format", "jsonl", "--top", "1"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["hits"][0]["file"] == "odd/01.png"
    assert "bad.png cannot be read" in captured.err
    assert "no image file at" in captured.err


def test_a_folder_without_embeddings_is_named(photo_folders, capsys):
    assert main(["search", str(photo_folders), "x.png"]) == 1
    assert "no embeddings in" in capsys.readouterr().err


def test_a_sheet_is_a_png(embeddings, tmp_path, capsys):
    assert main(["search", str(embeddings), "x.png", "--sheet", str(tmp_path / "found.html")]) == 1
    assert "expected a PNG file for --sheet" in capsys.readouterr().err
