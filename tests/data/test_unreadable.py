"""The list of unreadable images."""

from spectral_vmamba.data.unreadable import ReadError, summarize_unreadable, write_unreadable


def test_the_list_is_sorted_by_index_and_removed_when_empty(tmp_path):
    errors = [ReadError(7, "b.png", "damaged"), ReadError(2, "z.png", "missing")]
    write_unreadable(tmp_path, errors)
    assert (tmp_path / "unreadable.txt").read_text() == "z.png\tmissing\nb.png\tdamaged\n"
    write_unreadable(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    write_unreadable(tmp_path, [])


def test_names_that_are_not_utf8_can_be_listed(tmp_path):
    write_unreadable(tmp_path, [ReadError(0, "caf\udce9.png", "damaged")])
    assert (tmp_path / "unreadable.txt").read_text() == "caf?.png\tdamaged\n"


def test_long_summaries_are_shortened():
    errors = [ReadError(i, f"{i}.png", "damaged") for i in range(12)]
    assert summarize_unreadable(errors[:2]) == "0.png, 1.png"
    assert summarize_unreadable(errors, limit=3) == "0.png, 1.png, 2.png and 9 more"
