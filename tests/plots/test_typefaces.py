"""Fonts for names in any script."""

import logging
import warnings
from io import BytesIO

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont

from spectral_vmamba.plots import typefaces
from spectral_vmamba.plots.typefaces import find_typeface


def test_latin_names_need_the_base_font_only(monkeypatch):
    opened = []
    read = typefaces._read_charmap
    monkeypatch.setattr(typefaces, "_read_charmap", lambda path: opened.append(path) or read(path))
    typeface = find_typeface(["Café", "Ωδή"])
    assert typeface.families == ("DejaVu Sans",)
    assert opened == [findfont("DejaVu Sans")]
    assert "".join(typeface.drawable("Café")) == "Café"


def test_characters_that_no_font_has_are_escaped(monkeypatch):
    monkeypatch.setattr(typefaces, "_fonts", lambda: [("DejaVu Sans", findfont("DejaVu Sans"))])
    typeface = find_typeface(["a京\udce9\n", "\U00020000"])
    assert typeface.drawable("a京\udce9\n") == ["a", "\\u4eac", "\\udce9", "\\u000a"]
    assert typeface.drawable("\U00020000") == ["\\U00020000"]


def test_another_installed_font_is_used_for_the_characters_that_it_has(monkeypatch):
    """Here STIX, which ships with matplotlib, in place of a CJK font."""
    fonts = [("DejaVu Sans", findfont("DejaVu Sans")), ("STIXGeneral", findfont("STIXGeneral"))]
    monkeypatch.setattr(typefaces, "_fonts", lambda: fonts)
    base, other = (set(typefaces._read_charmap(path)) for _, path in fonts)
    character = chr(min(other - base))
    typeface = find_typeface([f"a{character}"])
    assert typeface.families == ("DejaVu Sans", "STIXGeneral")
    assert typeface.drawable(character) == [character]


@pytest.mark.parametrize("text", ["京都の寺院", "한국어", "ภาษาไทย", "caf\udce9", "😀", "\x07"])
def test_any_name_is_drawn_without_a_warning(text, caplog):
    typeface = find_typeface([text])
    figure = Figure()
    figure.text(0, 0, "".join(typeface.drawable(text)), fontfamily=list(typeface.families))
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        figure.savefig(BytesIO(), format="png")
    assert not caplog.records


def test_a_damaged_font_is_skipped(tmp_path):
    path = tmp_path / "x.ttf"
    path.write_bytes(b"no font")
    assert typefaces._read_charmap(str(path)) == {}
