"""Numbers, durations, names and suggestions in messages."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import accumulate
from unicodedata import east_asian_width


def plural(count: int, noun: str, several: str | None = None) -> str:
    """A count with its noun: "1 image", "1,200 images". `several` is the plural if it is not noun + "s"."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def duration(seconds: float) -> str:
    """A rounded duration: "40 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def shorten_middle(text: Sequence[str], width: int) -> str:
    """At most `width` columns: the beginning and, a little longer, the end of the text. Wide characters count twice.

    The text is a string, or a list of pieces that are not cut.
    """
    columns = [sum(1 + (east_asian_width(character) in "WF") for character in piece) for piece in text]
    if sum(columns) <= width:
        return "".join(text)
    start, end = (width - 1) // 3, width - 1 - (width - 1) // 3
    head = sum(total <= start for total in accumulate(columns))
    tail = sum(total <= end for total in accumulate(reversed(columns)))
    return "".join([*text[:head], "…", *text[len(text) - tail :]])


def at_least(minimum: int, **values: int | float | None) -> None:
    """Raise a ValueError that names the first value below the minimum; None is accepted."""
    for name, value in values.items():
        if value is not None and value < minimum:
            raise ValueError(f"expected {name} of at least {minimum}, got {value}")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if none is similar."""
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), None)
