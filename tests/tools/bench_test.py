import pathlib
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from tf_dynacomm.bench import rows
from tf_dynacomm.tools import bench, command


@pytest.fixture(autouse=True)
def parsed_flags():
    with flagsaver.flagsaver():
        flags.FLAGS.mark_as_parsed()
        yield


def test_grid_has_every_combination():
    with flagsaver.flagsaver(
        models=["small_cnn", "emulated:vgg19:0.1:1:1"], latencies_ms=["0", "10"], workers=["1", "2"]
    ):
        cells, rates = bench.grid()

    assert len({(cell.workload.name, cell.latency_s, cell.workers) for cell in cells}) == 8
    assert cells[1].latency_s == 0.01
    assert [rate.text for rate in rates] == ["250mbit"]


@pytest.mark.parametrize(
    ("flag", "values"),
    [("models", ["lenet"]), ("rates", ["fast"]), ("latencies_ms", ["-1"]), ("workers", ["0"])],
)
def test_wrong_values_are_told_with_their_flag(flag, values):
    with (
        flagsaver.flagsaver(**{flag: values}),
        pytest.raises(command.UserError, match=f"--{flag}: "),
    ):
        bench.grid()


def test_unknown_contender_is_told():
    with (
        flagsaver.flagsaver(contenders=["stock", "best"]),
        pytest.raises(command.UserError, match="--contenders: 'best' must be of stock"),
    ):
        bench.settings()


def test_settings_follow_the_flags():
    with flagsaver.flagsaver(rounds=2, steps=7, links="relay", ps_rate="1gbit"):
        settings = bench.settings()

    assert (settings.rounds, settings.steps, settings.how) == (2, 7, "relay")
    assert settings.ps_bytes_per_s == pytest.approx(125e6)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What the command prints, and the files that it writes."""
    folder = tmp_path_factory.mktemp("bench")
    files = {name: folder / f"out.{name}" for name in ("json", "csv")}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", bench.__name__),
            "--models=emulated:vgg19:0.0005:0.02:0.04",
            "--contenders=stock,dynacomm",
            *("--rates=100mbit,50mbit", "--rounds=1", "--steps=1", "--links=relay"),
            *(f"--{name}={file}" for name, file in files.items()),
        ],
        capture_output=True,
        text=True,
        cwd=pathlib.Path(bench.__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, files


@pytest.mark.cluster
def test_command_measures_contenders_at_each_rate(measured):
    found = rows.read_json(measured[1]["json"])

    assert [(row.rate, row.contender) for row in found] == [
        (rate, name) for rate in ("100mbit", "50mbit") for name in ("stock", "dynacomm")
    ]
    assert all(row.median_step_s > 0.99 * row.duplex_limit_s for row in found)
    assert found[2].bound_s > found[0].bound_s
    assert found[1].pulls >= 1
    assert found[1].predicted_s > 0.05


@pytest.mark.cluster
def test_command_tells_and_writes(measured):
    told, files = measured

    assert "links: relay" in told
    assert files["csv"].read_text().count("\n") == 5
