"""The report of `evaluate`: complete, escaped, and readable for any number of classes."""

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from spectral_vmamba.plots.evaluation_report import make_evaluation_report
from tests.support.evaluations import make_evaluation
from tests.support.storages import make_unreadable

HOSTILE = "<script>alert(1)</script>\"'&$x_{"


def page(*evaluations) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as for glyphs that a font does not have
        return make_evaluation_report(evaluations, "spectral-vmamba evaluate runs/x", 12.3)


class Elements(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_the_page_is_self_contained_and_complete():
    html = page(make_evaluation([0, 1, 2, 2], [0, 1, 2, 1], ("ash", "birch", "cedar"), selected_epoch=True))
    assert not re.findall(r'(?:src|href)="(?!data:)', html)
    assert html.count("data:image/png;base64,") == 2, "curves and polar plot"
    assert html.count("data:image/jpeg;base64,") == 1, "one misclassified image"
    for fact in (
        "4 images of 3 classes: validation images of photos.",
        "These images selected the best epoch; use --test-fraction when training",
        "75.00%",
        "50.00% (cedar)",
        "1 upright image is misclassified",
        "images/3.png<br>cedar → birch (90.0%)",
        "<td>cedar</td><td>2</td><td>100.0%</td><td>50.0%</td><td>66.7%</td><td>50.0% at every angle</td>",
        "<pre>spectral-vmamba evaluate runs/x</pre>",
        "trained on photos with seed 7 (torch 2)",
        "The evaluation took 12 s.",
    ):
        assert fact in html, fact


def test_names_from_outside_are_escaped():
    hostile = make_evaluation([0, 1], [1, 1], (HOSTILE, "b"), [HOSTILE, "b.png"], name=HOSTILE)
    html = page(replace(hostile, data=HOSTILE), make_evaluation([0, 1], [0, 1], (HOSTILE, "b")))
    assert html.count("&lt;script&gt;") >= 5
    elements = Elements()
    elements.feed(html)
    assert "script" not in elements.tags
    assert elements.attributes <= {"lang", "charset", "name", "content", "class", "style", "alt", "src"}


def test_all_classes_at_100_percent_have_no_worst_class():
    html = page(make_evaluation([0, 1], [0, 1], ("a", "b")))
    assert "all classes at 100%" in html
    assert "Every image of every class is classified correctly." in html
    assert "<p>None.</p>" in html


def test_at_most_48_mistakes_are_shown_and_the_rest_is_counted():
    html = page(make_evaluation([0] * 60, [1] * 60, ("a", "b")))
    assert html.count("<figure>") == 48
    assert "48 are shown; images.csv lists the other 12." in html


def test_many_classes_list_the_most_frequent_confusions():
    classes = [f"class {i}" for i in range(130)]
    html = page(make_evaluation([*range(130), 5, 5], [*range(130), 7, 7], classes))
    assert "<td>class 5</td><td>class 7</td><td>2</td>" in html
    assert html.count("data:image/png;base64,") == 3
    assert html.count("at every angle</td>") == 130, "every class is in the table"


@pytest.mark.parametrize("predicted", [0, 1])
def test_one_image(predicted):
    html = page(make_evaluation([0], [predicted], ("a", "b")))
    assert "1 image of 2 classes" in html
    assert "1 class without images: not listed." in html


def test_names_in_any_script():
    html = page(make_evaluation([0, 1], [1, 1], ("桜", "梅"), ["写真/一.png", "写真/\udcff.png"], name="実行"))
    assert "桜 → 梅" in html
    assert "写真/一.png" in html
    html.encode("utf-8")


def test_images_that_disappeared_are_left_out():
    evaluation = make_evaluation([0, 1], [1, 1], ("a", "b"))
    html = page(replace(evaluation, images=make_unreadable(evaluation.images, 0)))
    assert "cannot be read" in html
