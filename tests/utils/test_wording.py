"""Words of messages."""

import pytest

from spectral_vmamba.utils.wording import at_least, closest, duration, plural, shorten_middle


def test_counts_agree_with_their_nouns():
    assert [plural(n, "image") for n in (0, 1, 2, 1200)] == ["0 images", "1 image", "2 images", "1,200 images"]
    assert plural(2, "class", "classes") == "2 classes"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5340, "89 min"), (7200, "2 h"), (9000, "2 h 30 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_long_names_keep_their_beginning_and_their_end():
    assert shorten_middle("short.jpg", 9) == "short.jpg"
    assert shorten_middle("photos/2024/long/new.jpg", 13) == "phot…/new.jpg"
    assert shorten_middle("京都の寺院と庭園の写真", 9) == "京…の写真", "wide characters count twice"
    assert shorten_middle(["a", "\\u4eac", "b", "\\u90fd"], 9) == "a…\\u90fd", "pieces are not cut"


@pytest.mark.parametrize("width", range(1, 12))
def test_shortened_names_fit(width):
    assert len(shorten_middle("0123456789", width)) <= max(width, 1)


def test_a_value_below_its_minimum_is_named():
    at_least(0, workers=0, size=None)
    with pytest.raises(ValueError, match="expected batch_size of at least 1, got 0"):
        at_least(1, top=3, batch_size=0)


def test_the_closest_word():
    assert closest("light", ["digits", "laptop", "lite"]) == "lite"
    assert closest("xyz", ["digits", "laptop"]) is None
