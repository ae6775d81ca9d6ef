"""Contact sheets of search results."""

import numpy as np

from spectral_vmamba.plots.contact_sheet import plot_contact_sheet
from spectral_vmamba.retrieval.thumbnails import Thumbnail

IMAGE = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


def test_the_query_is_framed_and_long_names_keep_their_beginning_and_their_end():
    query = Thumbnail(IMAGE, "query", "photos/2024/a-very-long-folder-name/new.jpg")
    long = Thumbnail(IMAGE, "10: 0.987", "x.jpg", "surface defects, rolled-in scale")
    figure = plot_contact_sheet([[query, Thumbnail(IMAGE, "1: 0.987", "cat.jpg", "cat"), long]])
    first, second, third = figure.axes
    assert np.array_equal(first.images[0].get_array(), IMAGE)
    assert first.spines["top"].get_visible()
    assert not second.spines["top"].get_visible()
    assert first.get_xlabel() == "photos/…der-name/new.jpg"
    assert second.get_title() == "1: 0.987 cat"
    assert third.get_title() == "10: 0.987 surf…-in scale", "rank and similarity are never cut"


def test_results_wrap_after_six_tiles_and_missing_images_are_named():
    rows = [[Thumbnail(IMAGE, "query", "q"), *(Thumbnail(None, str(i), f"{i}.jpg") for i in range(8))]]
    figure = plot_contact_sheet(rows)
    assert len(figure.axes) == 12
    assert sum(text.get_text() == "missing" for axis in figure.axes for text in axis.texts) == 8


def test_dollar_signs_are_not_mathematics():
    plot_contact_sheet([[Thumbnail(IMAGE, "$x", "$a_{")]]).draw_without_rendering()
