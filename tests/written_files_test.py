"""All files that the package writes for a user are written whole, and no link is followed."""

import dataclasses

import pytest

from tf_dynacomm import LayerCosts, schedulers, timeline, timeline_plot, timeline_trace
from tf_dynacomm.bench import plot, rows
from tf_dynacomm.tools import inspect_files

_COSTS = LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5)
_PLAN = schedulers.get("dynacomm")(_COSTS)
_STEP = timeline.simulate(_COSTS, _PLAN)
_ROW = rows.Row(
    **{
        **{field.name: 1.0 for field in dataclasses.fields(rows.Row)},
        "model": "vgg19",
        "rate": "1gbit",
        "contender": "stock",
        "links": "relay",
    }
)
_WRITERS = {
    "costs.json": _COSTS.save,
    "plan.json": _PLAN.save,
    "step.json": lambda path: timeline_trace.write(path, _STEP),
    "step.svg": lambda path: timeline_plot.write(path, {"step": _STEP}),
    "rows.json": lambda path: rows.write_json(path, [_ROW]),
    "rows.csv": lambda path: rows.write_csv(path, [_ROW]),
    "rows.png": lambda path: plot.write(path, [_ROW]),
    "traced.json": lambda path: inspect_files.write_json(path, []),
    "traced.csv": lambda path: inspect_files.write_csv(path, []),
}


@pytest.mark.parametrize("name", _WRITERS)
def test_a_link_is_replaced_and_nothing_else_is_left(tmp_path, name):
    if not name.endswith(("json", "csv")):
        pytest.importorskip("matplotlib")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / name
    path.symlink_to(elsewhere)

    _WRITERS[name](path)

    assert elsewhere.read_text() == "kept"
    assert list(folder.iterdir()) == [path]
    assert path.stat().st_size > 0
    assert not path.is_symlink()
