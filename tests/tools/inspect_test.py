"""Tests of `tf_dynacomm.tools.inspect`."""

import pathlib
import subprocess
import sys

import pytest

from tf_dynacomm import LayerCosts
from tf_dynacomm.profiling import trace
from tf_dynacomm.tools import inspect


def _run(*arguments) -> subprocess.CompletedProcess:
    program = [sys.executable, "-m", "tf_dynacomm.tools.inspect", *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=60)


def _costs() -> LayerCosts:
    return LayerCosts([3, 1], [2, 2], [4, 2], [3, 1], overhead_s=0.5, names=["conv", "dense"])


def test_a_missing_path_is_one_line():
    done = _run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "inspect.py: PATH is missing\n"


@pytest.mark.parametrize("content", [None, b"", b"no trace"])
def test_a_bad_trace_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "host.xplane.pb"
    if content is not None:
        path.write_bytes(content)
    done = _run(path)
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_host_shows_what_it_received_and_its_longest_operations():
    step = trace.StepTrace(
        [trace.Operation("short", 0.0, 0.001), trace.Operation("long", 0.0, 0.002)],
        {"w": trace.Transfer("w", 0.5, 0.75)},
    )
    shown = "\n".join(inspect.host_sections(trace.HostTrace("a:1", {7: step}), operations=1))
    assert "a:1: 1 functions ran, 1 of them received" in shown
    assert "250.000" in shown
    assert "2.000" in shown
    assert "short" not in shown


def test_costs_show_each_layer_and_every_scheduler():
    layers, schedulers = inspect.costs_sections("costs-1.json", _costs())
    assert "conv" in layers
    assert "4000.000" in layers
    assert schedulers.index("dynacomm") < schedulers.index("sequential")


def test_the_latest_epoch_is_shown(tmp_path):
    for epoch in (2, 10, 9):
        _costs().save(tmp_path / f"costs-{epoch}.json")
    assert inspect.latest_costs(tmp_path) == tmp_path / "costs-10.json"
    assert inspect.latest_costs(pathlib.Path("nowhere")) is None


def test_tables_align():
    assert inspect.table(("a", "b"), [("long", 1), ("c", 22)]) == "a      b\nlong   1\nc     22"
