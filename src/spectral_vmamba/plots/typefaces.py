"""Fonts for text from outside, such as file and class names in any script."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from matplotlib.font_manager import findfont, fontManager
from matplotlib.ft2font import FT2Font

_BASE = "DejaVu Sans"  # ships with matplotlib
_PLACEHOLDERS = "Last Resort"  # draws a box for every character
# Fonts that cover many characters are tried first.
_WIDE_COVERAGE = ("CJK", "Han Sans", "Hei", "Gothic", "Unicode", "Fallback", "Noto Sans", "Hiragino", "Meiryo")


@dataclass(frozen=True)
class Typeface:
    """Installed fonts, to be tried in this order for each character, and the characters that they can draw."""

    families: tuple[str, ...]
    characters: frozenset[str]

    def drawable(self, text: str) -> list[str]:
        """The characters of the text, with an escape such as \\u5bfa for each that no font can draw."""
        return [each if each in self.characters else _escape(each) for each in text]


def find_typeface(texts: Iterable[str]) -> Typeface:
    """Search the installed fonts for the characters of the texts: the base font first, others only if needed."""
    missing = {character for text in texts for character in text}
    families, found = [_BASE], set[str]()
    for family, path in _fonts():
        if not missing:
            break
        charmap = _read_charmap(path)
        covered = {character for character in missing if ord(character) in charmap}
        families += [family] if covered and family != _BASE else []
        found |= covered
        missing -= covered
    return Typeface(tuple(families), frozenset(found))


def _fonts() -> Iterator[tuple[str, str]]:
    """Family and file: the base font, then one upright regular file of each installed family."""
    yield _BASE, findfont(_BASE)
    regular = [font for font in fontManager.ttflist if font.style == "normal" and font.weight in (400, "normal")]
    paths = {font.name: font.fname for font in reversed(regular) if font.name != _BASE}
    usable = [name for name in paths if _PLACEHOLDERS not in name]
    for name in sorted(usable, key=lambda name: not any(part in name for part in _WIDE_COVERAGE)):
        yield name, paths[name]


def _read_charmap(path: str) -> Mapping[int, int]:
    try:
        return FT2Font(path).get_charmap()
    except (OSError, RuntimeError):  # a damaged font, or one removed since matplotlib listed it
        return {}


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"
