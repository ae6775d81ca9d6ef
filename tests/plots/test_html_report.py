"""HTML reports are self-contained and escape their text."""

import base64
import re

import numpy as np
from matplotlib.figure import Figure

from spectral_vmamba.plots.html_report import Matrix, Section, Tile, format_html


def test_text_is_escaped():
    page = format_html("a < b", "x & y", [Section("<script>", ["p > q"], [["h"], ["<b>"]], code="a && b")])
    page += format_html("", "", [Section("", matrix=Matrix(["<script>"], np.ones((1, 1), int)), warning="<script>")])
    page += format_html("", "", [Section("", gallery=[Tile(None, ["<script>"])])])
    for escaped in ("a &lt; b", "x &amp; y", "&lt;script&gt;", "p &gt; q", "<td>&lt;b&gt;</td>", "a &amp;&amp; b"):
        assert escaped in page
    assert "<script>" not in page


def test_figures_are_embedded_as_png():
    figure = Figure()
    figure.subplots().plot([1, 2])
    page = format_html("title", "", [Section("section", figures=[(figure, "caption")])])
    (encoded,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(encoded).startswith(b"\x89PNG")
    assert "caption" in page
