"""Tests of `tf_dynacomm.tools.inspect`, as a user runs it."""

import csv
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tf_dynacomm.tools import command, inspect_run

_TRACES = pathlib.Path(__file__).parents[2] / "testdata" / "traces"


def _main(path, **options) -> None:
    """Does in this process what the command does."""
    inspect_run.show(pathlib.Path(path), inspect_run.Options(**options))


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A run of two workers under a logdir, inspected as a user does it, with all files written."""
    logdir = tmp_path_factory.mktemp("logdir")
    shutil.copytree(_TRACES / "two_workers", logdir / "plugins" / "profile" / "2026_01_01")
    files = {flag: logdir / f"out.{flag}" for flag in ("json", "csv", "chrome")}
    files["plot"] = logdir / "out.png"
    program = [sys.executable, "-m", "tf_dynacomm.tools.inspect", str(logdir)]
    program += [f"--{flag}={file}" for flag, file in files.items()]
    # As a user's shell has it: what loading TensorFlow here has set is not for the command.
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, files


def test_a_missing_path_is_one_line():
    program = [sys.executable, "-m", "tf_dynacomm.tools.inspect"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "inspect.py: PATH is missing\n"


@pytest.mark.parametrize("name", ["host.xplane.pb", "host.trace.json.gz"])
@pytest.mark.parametrize("content", [None, b"", b"no trace"])
def test_a_bad_trace_is_named_in_one_line(tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(command.UserError, match=f"^{re.escape(str(path))}: [^\n]*$"):
        _main(path)


def test_a_ps_tasks_trace_alone_shows_what_it_holds_and_says_what_is_missing(capsys):
    path = _TRACES / "stock" / "ps_0.xplane.pb.gz"
    with pytest.raises(command.UserError, match=f"{path}: no worker of a parameter server"):
        _main(path)
    assert "ps_0 (ps:0)" in capsys.readouterr().out


def test_a_workers_trace_alone_says_what_is_missing(tmp_path):
    path = shutil.copy(_TRACES / "stock" / "worker_0.xplane.pb.gz", tmp_path)
    with pytest.raises(command.UserError, match=f"{path}: The trace of worker_0 holds no whole"):
        _main(path)


def test_a_worker_that_is_not_there_is_an_error():
    with pytest.raises(command.UserError, match="stock: no worker 3"):
        _main(_TRACES / "stock", worker=3)


def test_the_latest_run_of_a_logdir_is_shown_with_every_worker(two_workers):
    shown, _ = two_workers
    assert "2026_01_01, the latest run in" in shown
    for part in ("worker 0, plan by dynacomm", "worker 1, plan by dynacomm", "fc ms", "measured"):
        assert part in shown


def test_one_worker_is_shown_if_only_that_is_asked_for(capsys):
    _main(_TRACES / "two_workers", worker=1, operations=0)
    shown = capsys.readouterr().out
    assert "worker 1, plan by dynacomm" in shown
    assert "worker 0, plan by dynacomm" not in shown


def test_json_has_the_costs_of_each_worker(two_workers):
    workers = json.loads(two_workers[1]["json"].read_text())["workers"]
    assert [worker["worker"] for worker in workers] == [0, 1]
    for worker in workers:
        assert worker["matched_share"] > 0.9
        assert worker["steps"] > 1
        assert worker["overhead_pull_s"] > 0
        assert len(worker["layers"]) == 8
        for key in ("name", "bytes", "forward_s", "backward_s", "pull_s", "push_s"):
            assert key in worker["layers"][0]
        assert sum(layer["bytes"] for layer in worker["layers"]) == 263_336


def test_csv_has_a_line_for_each_workers_layer(two_workers):
    with two_workers[1]["csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {row["worker"] for row in rows} == {"0", "1"}
    assert all(float(row["forward_s"]) > 0 for row in rows)


def test_the_measured_step_is_drawn_above_the_predicted_one(two_workers):
    assert two_workers[1]["plot"].read_bytes().startswith(b"\x89PNG")
    events = json.loads(two_workers[1]["chrome"].read_text())["traceEvents"]
    titles = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert titles[:2] == ["worker 0, measured", "worker 0, predicted"]
    assert {e["pid"] for e in events} == {0, 1, 2, 3}


def test_without_the_step_stock_is_told_by_names_and_said_to_be_coarser(tmp_path, capsys):
    for file in (_TRACES / "stock").glob("*.gz"):
        shutil.copy(file, tmp_path)
    _main(tmp_path, json=str(tmp_path / "out.json"), step=2, operations=0)
    assert "a coarser answer" in capsys.readouterr().out
    (worker,) = json.loads((tmp_path / "out.json").read_text())["workers"]
    assert worker["by_name_only"]
    assert worker["layers"][0]["bytes"] is None


def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_read(tmp_path, capsys):
    with pytest.raises(command.UserError, match=r"--json: the folder of .*/no/out\.json is not"):
        _main(_TRACES / "stock", json=str(tmp_path / "no" / "out.json"))
    assert not capsys.readouterr().out


def test_two_outputs_in_one_file_are_refused(tmp_path):
    path = str(tmp_path / "out")
    with pytest.raises(command.UserError, match=r"--json: .*/out is another flag's file too"):
        _main(_TRACES / "stock", json=path, chrome=path)


def test_a_file_that_cannot_take_its_place_is_named_itself(tmp_path):
    with pytest.raises(command.UserError, match=rf"--json: .*{re.escape(str(tmp_path))}'?$"):
        _main(_TRACES / "stock", json=str(tmp_path), operations=0)


def test_workers_and_ps_tasks_may_be_packed_or_not(tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(_TRACES / "stock", folder)
    (packed,) = folder.glob("ps_0*.gz")
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    _main(folder, operations=0)
    assert "worker 0, as stock" in capsys.readouterr().out
