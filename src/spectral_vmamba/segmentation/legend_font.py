"""A font of Pillow for names in any script, as far as the fonts of the system have their characters."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from PIL import Image, ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Pillow's own font has Latin letters without accents. These are searched in the folders of the system.
_SYSTEM_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "Arial.ttf",
    "arial.ttf",
    "NotoSansCJK-Regular.ttc",
    "Arial Unicode.ttf",
    "msyh.ttc",
)
_UNKNOWN = "\uffff"  # no font draws it


def find_font(texts: Iterable[str], size: int) -> Font:
    """The first font that draws all characters, or the one that misses the fewest; Pillow's own font comes first."""
    characters = {character for text in texts for character in text if not character.isspace()}
    missing: list[tuple[int, Font]] = []
    for font in _fonts(size):
        missing.append((len(characters - _drawn(characters, font)), font))
        if missing[-1][0] == 0:
            break
    return min(missing, key=lambda pair: pair[0])[1]


def drawable(text: str, font: Font) -> str:
    """The text on one line, with an escape such as \\u5bfa for each character that the font cannot draw."""
    text = " ".join(text.split())
    drawn = _drawn(set(text), font) | {" "}
    return "".join(each if each in drawn else each.encode("unicode_escape").decode() for each in text)


def fit(text: str, font: Font, width: float) -> str:
    """The beginning of the text that fits, with three dots if it is not all of it."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text + "..."


def _fonts(size: int) -> Iterator[Font]:
    yield ImageFont.load_default(size)
    for name in _SYSTEM_FONTS:
        with suppress(OSError):
            yield ImageFont.truetype(name, size)


def _drawn(characters: set[str], font: Font) -> set[str]:
    unknown = _draw(_UNKNOWN, font)
    return {character for character in characters if _draw(character, font) != unknown}


def _draw(character: str, font: Font) -> bytes:
    image = Image.new("L", (64, 64))
    ImageDraw.Draw(image).text((0, 0), character, fill=255, font=font)
    return image.tobytes()
