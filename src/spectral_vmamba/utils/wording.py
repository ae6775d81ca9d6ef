"""Numbers, durations, names and suggestions in messages."""

from collections.abc import Iterable
from difflib import get_close_matches


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


def shorten_middle(text: str, length: int) -> str:
    """At most `length` characters: the beginning and the end of a longer text, the end a little longer."""
    if len(text) <= length:
        return text
    start = (length - 1) // 3
    return f"{text[:start]}…{text[len(text) - (length - 1 - start) :]}"


def at_least(minimum: int, **values: int | float | None) -> None:
    """Raise a ValueError that names the first value below the minimum; None is accepted."""
    for name, value in values.items():
        if value is not None and value < minimum:
            raise ValueError(f"expected {name} of at least {minimum}, got {value}")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if none is similar."""
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), None)
