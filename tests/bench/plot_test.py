import dataclasses

import pytest

from tf_dynacomm.bench import plot


def test_each_cell_has_a_panel(tmp_path, some_rows):
    other = [dataclasses.replace(row, rate="1gbit") for row in some_rows]

    plot.write(tmp_path / "bars.svg", [*some_rows, *other])
    text = (tmp_path / "bars.svg").read_text()
    assert text.count('<g id="axes_') == 2


def test_rows_are_needed(tmp_path):
    with pytest.raises(ValueError, match="at least one row"):
        plot.write(tmp_path / "bars.svg", [])


def test_bars_are_relative_to_sequential(some_rows):
    from matplotlib import figure

    axes = figure.Figure().subplots()
    plot._draw(axes, some_rows)

    assert [text.get_text() for text in axes.texts] == ["50", "100", "38"]
