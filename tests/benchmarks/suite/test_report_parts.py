from matplotlib.figure import Figure

from benchmarks.suite.report_parts import draw_bars, format_ratio, list_competitors
from benchmarks.suite.timing import Comparison, Timing


def test_format_ratio():
    assert [format_ratio(ratio) for ratio in (None, 0.5, 3.14159, 12.34)] == ["–", "0.50×", "3.14×", "12.3×"]


def test_competitors_in_order_of_appearance():
    comparisons = [Comparison({name: Timing(1.0, 1) for name in names}) for names in ("ba", "cb")]
    assert list_competitors(comparisons) == ["b", "a", "c"]


def test_first_bar_is_at_the_top():
    axis = Figure().subplots()
    draw_bars(axis, ["first", "second"], [3.0, 1.0], ["tab:green", "tab:gray"], ["1×", "3×"])
    first, second = axis.patches
    heights = [axis.transData.transform((0, bar.get_y()))[1] for bar in (first, second)]
    assert heights[0] > heights[1]
    assert [first.get_width(), second.get_width()] == [3.0, 1.0]
    assert [text.get_text() for text in axis.texts] == ["1×", "3×"]
