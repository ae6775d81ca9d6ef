"""The certificate as an HTML page."""

import re

import pytest

from spectral_vmamba.inference.certificate import Certificate, Check, Promise
from spectral_vmamba.plots.certificate_page import format_certificate


def make_certificate(**changes) -> Certificate:
    promised = Check("tensor", "quarter turns", Promise(0.0, "The frame."), 50, 150, 0, 0.0)
    measured = Check("files", "jpeg 75", Promise(None, "Pixels change."), 50, 150, 3, 0.25)
    values = {"name": "net", "data": "photos", "dataset_size": 60, "checks": (promised, measured), **changes}
    return Certificate(**values)


def test_every_number_and_fact_is_on_the_page():
    page = format_certificate(make_certificate(), {"command": "spectral-vmamba certify x", "date": "2026-01-02"})
    rows = re.findall(r"<tr>(.*)</tr>", page)
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert ["tensor", "quarter turns", "50", "0 of 150", "100.00%", "0", "same bits", "passed"] in cells
    assert ["files", "jpeg 75", "50", "3 of 150", "98.00%", "0.25", "no", "measured"] in cells
    assert "Checked 50 of 60 images: photos." in page
    assert "Passed: 1 of 1 promised conditions hold." in page
    assert "tensor (quarter turns): promised, same bits. The frame." in page
    assert "<code>spectral-vmamba certify x</code>" in page
    assert "2026-01-02" in page


def test_the_page_is_self_contained():
    page = format_certificate(make_certificate(), {})
    assert not re.search(r"(src|href|url)\s*[=(]", page)


@pytest.mark.parametrize("flips", [0, 2])
def test_a_failure_shows_in_the_verdict_and_in_its_row(flips):
    check = Check("tensor", "quarter turns", Promise(0.0, "The frame."), 50, 150, flips, flips / 10)
    page = format_certificate(make_certificate(checks=(check,)), {})
    assert ('class="verdict FAILED"' in page) == (flips > 0)
    assert ('<td class="FAILED">FAILED</td>' in page) == (flips > 0)


def test_text_from_outside_is_escaped():
    page = format_certificate(make_certificate(name="<script>1</script>", data="<b>"), {"command": "<i>", "<u>": "<u>"})
    for tag in ("<script>", "<b>", "<i>", "<u>"):
        assert tag not in page
