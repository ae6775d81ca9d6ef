"""Output files keep the folders of the images, and never share a name."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.segmentation.output_names import output_stems


def stems(*names):
    return [str(stem) for stem in output_stems(names)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["photos/a.jpg"], ["a"]),
        (["photos/a.jpg", "photos/sub/b.tif"], ["a", "sub/b"]),
        (["x/a.jpg", "y/a.jpg"], ["x/a", "y/a"]),
        (["a.jpg", "a.png", "b.png"], ["a.jpg", "a.png", "b"]),
        (["a.jpg", "A.png"], ["a.jpg", "A.png"]),
        (["a.jpg", "a.png", "a.jpg.tif"], ["a.jpg", "a.png", "a.jpg-2"]),
        (["a.png", "./a.png"], ["a.png", "a.png-2"]),
        (["../up/a.png", "down/b.png"], None),
        (["https://site.org/x/a.png?size=1", "https://site.org/x/../b.png"], ["a", "b"]),
        (["https://site.org", "a.png"], None),
        ([], []),
    ],
)
def test_names(names, expected):
    found = stems(*names)
    assert expected is None or found == expected
    assert all(".." not in Path(stem).parts and not os.path.isabs(stem) for stem in found)


parts = st.sampled_from(["a", "A", "b", "a.jpg", "a-2", "a.png", "c.d"])


@given(
    st.lists(st.tuples(st.lists(parts, max_size=2), parts, st.sampled_from(["", ".jpg", ".png", ".PNG"])), max_size=8)
)
def test_no_two_images_share_a_name(pieces):
    names = ["/".join(["root", *folders, stem + suffix]) for folders, stem, suffix in pieces]
    found = stems(*names)
    assert len({stem.casefold() for stem in found}) == len(names)
