"""How work that goes through many items lets others see how far it is."""

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]  # items, what is done, how many


def quiet(items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
    return items
