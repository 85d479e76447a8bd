import json
import subprocess
import sys

import pytest
from absl.testing import flagsaver

from tf_dynacomm import schedulers, timeline
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.tools import command, plan

_COSTS = LayerCosts([3, 1, 2], [2, 2, 1], [4, 2, 3], [3, 1, 2], 0.5, names=["a", "b", "c"])


@pytest.fixture
def costs_path(tmp_path):
    path = tmp_path / "costs.json"
    _COSTS.save(path)
    return path


def _run(capsys, **flags):
    """What the command prints, by lines."""
    with flagsaver.as_parsed(**{name: str(value) for name, value in flags.items()}):
        plan.main(["dynacomm-plan"])
    return capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def _parsed_flags():
    plan.flags.FLAGS.mark_as_parsed()


def _rows(lines):
    return {line.split()[0]: line.split() for line in lines[3:-2]}


def test_all_schedulers_are_compared(capsys, costs_path):
    rows = _rows(_run(capsys, costs=costs_path))
    assert list(rows) == list(schedulers.names())
    for name, row in rows.items():
        made = schedulers.get(name)(_COSTS)
        step = timeline.simulate(_COSTS, made)
        assert row[1:3] == [f"{len(made.pull)}", f"{len(made.push)}"]
        assert row[7] == f"{step.iteration_s * 1e3:.2f}"


def test_step_is_compared_with_the_best_one_without_overhead(capsys, costs_path):
    lines = _run(capsys, costs=costs_path, scheduler="sequential")
    # Without overhead, only the pull of a and the push of a are waited for: 3 + 5 + 9 + 3.
    assert lines[-1].startswith("bound: 20000.00 ms")
    assert _rows(lines)["sequential"][-1] == f"{27 / 20 - 1:+.1%}"


def test_one_scheduler(capsys, costs_path):
    assert list(_rows(_run(capsys, costs=costs_path, scheduler="bucketed"))) == ["bucketed"]


def test_costs_of_a_model(capsys):
    lines = _run(
        capsys, model="vgg19", bandwidth="1Gbps", flops="1e12", overhead="3ms", batch_size=8,
    )  # fmt: skip
    pull_ms = 143_667_240 * 4 / 125e6 * 1e3
    assert lines[0].startswith("19 layers, computation ")
    assert f"pull {pull_ms:.2f} ms + 3.00 ms each" in lines[0]
    assert "exhaustive" not in _rows(lines)


def test_plan_of_the_shortest_step_is_written(capsys, costs_path, tmp_path):
    _run(capsys, costs=costs_path, out=tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == schedulers.get("dynacomm")(_COSTS)


def test_plan_of_the_scheduler_is_written(capsys, costs_path, tmp_path):
    _run(capsys, costs=costs_path, scheduler="layer_by_layer", out=tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").pull == ((1, 1), (2, 2), (3, 3))


def test_credit(capsys, costs_path, tmp_path):
    _run(capsys, costs=costs_path, scheduler="sequential", credit=3, out=tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").credit == 3


def test_credit_0_is_the_best_one(capsys, costs_path, tmp_path):
    _run(capsys, costs=costs_path, scheduler="dynacomm", credit=0, out=tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == schedulers.get("dynacomm")(_COSTS, credit=None)


def test_buckets_of_a_model_have_the_size_asked_for(capsys, tmp_path):
    _run(capsys, model="vgg19", scheduler="bucketed", bucket_mib=1e4, out=tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").pull == ((1, 19),)


def test_trace_is_written(capsys, costs_path, tmp_path):
    _run(capsys, costs=costs_path, trace=tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_picture_is_written_from_the_longest_step_to_the_shortest(capsys, costs_path, tmp_path):
    pytest.importorskip("matplotlib")
    _run(capsys, costs=costs_path, plot=tmp_path / "steps.svg")
    svg = (tmp_path / "steps.svg").read_text()
    assert svg.index("<!-- sequential -->") < svg.index("<!-- dynacomm -->")


@pytest.mark.parametrize("flags", [{}, {"costs": "costs.json", "model": "vgg19"}])
def test_costs_or_model_must_be_given(capsys, flags):
    with pytest.raises(command.UserError, match="give either --costs or --model"):
        _run(capsys, **flags)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"costs": "missing.json"}, "^--costs: .*missing.json"),
        ({"model": "vgg19", "bandwidth": "fast"}, "^--bandwidth: 'fast' must be a rate"),
        ({"model": "vgg19", "overhead": "1"}, "^--overhead: '1' must be a time"),
        ({"model": "vgg19", "scheduler": "exhaustive"}, "^--scheduler: .*at most 16 layers"),
        ({"model": "vgg19", "out": "/missing/plan.json"}, "^--out: .*No such file"),
        ({"model": "vgg19", "trace": "/missing/t.json"}, "^--trace: .*No such file"),
        ({"model": "vgg19", "plot": "steps.txt"}, "^--plot: .*txt.*not supported"),
    ],
)
def test_error_names_the_flag(capsys, flags, message):
    with pytest.raises(command.UserError, match=message):
        _run(capsys, **flags)


def test_command_does_not_load_tensorflow(costs_path):
    program = (
        "import sys; from tf_dynacomm.tools import plan; import atexit;"
        "atexit.register(lambda: print('tensorflow' in sys.modules)); plan.run()"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, f"--costs={costs_path}"], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.splitlines()[-1]) == (0, "False"), run.stderr


def test_wrong_flag_is_told_in_one_line():
    run = subprocess.run(
        [sys.executable, "-m", "tf_dynacomm.tools.plan", "--scheduler=best"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert "--scheduler" in run.stderr
