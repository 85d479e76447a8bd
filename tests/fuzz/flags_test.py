"""Flags: whatever they are set to, they are taken or refused in one line."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import inputs
from tf_dynacomm.bench import workload
from tf_dynacomm.tools import quantities

_ODD = [
    "", " ", "nan", "-nan", "inf", "-1", "0", "1e999", "1e308", "9" * 30, "9" * 5000, "0x10", "1_0",
    "²", "1,2", "1,2,3", ",", "1,,1", "true", "\udcff", "small_cnn", "vgg19", "10Gbps", "1ms",
    "/dev/null", "/nowhere/file", ".", "emulated:vgg19:nan:1:1", "emulated:::::", "a\nb",
]  # fmt: skip

# The flags of two tools cannot live in one process.
_PROGRAM = """
import json, sys
from absl import flags
from absl.testing import flagsaver
from tf_dynacomm.tools import command, {tool} as tool

def told(flag, text):
    try:
        flags.FLAGS(["tool", *{given}, f"--{{flag}}={{text}}"])
        {use}
    except (flags.Error, command.UserError) as error:
        return str(error)

results = {{}}
for flag, text in json.load(sys.stdin):
    with flagsaver.flagsaver():
        try:
            results[f"{{flag}}={{text}}"] = told(flag, text)
        except BaseException as error:
            sys.exit(f"--{{flag}}={{text!r}}: {{error!r}}")
print(json.dumps(results))
"""
_TOOLS = {
    "train": ([], "tool.load_data(); tool._DYNACOMM.strategy_kwargs() if flag != 'plan' else None"),
    "plan": (["--model=vgg19"], "tool.load_costs()"),
    "bench": ([], "tool.grid(); tool.settings()"),
    "inspect": ([], "pass"),
}


def _flags(tool: str) -> list[str]:
    code = (
        "from absl import flags; import tf_dynacomm.tools.{0} as m;"
        "f = flags.FLAGS; print(*(n for n in f if f.find_module_defining_flag(n)"
        ".startswith('tf_dynacomm')))"
    )
    command = [sys.executable, "-c", code.format(tool)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("tool", _TOOLS)
def test_every_flag_takes_or_refuses_any_text(tool):
    given_flags, use = _TOOLS[tool]
    cases = [(flag, text) for flag in _flags(tool) for text in _ODD]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(tool=tool, given=given_flags, use=use)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
    results = json.loads(done.stdout)
    assert len(results) == len(cases)
    assert any(message is None for message in results.values())


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--learning_rate=nan", "must be finite"),
        ("--learning_rate=inf", "must be finite"),
        ("--seed=4294967296", "not an integer in the range"),
        ("--seed=99999999999999999999", "not an integer in the range"),
        ("--connect_timeout=nan", "must be a finite number of seconds"),
        ("--batch_size=99999999999", "not an integer in the range"),
        ("--strategy=stock --plan=plan.json", "--plan is of no use with --strategy=stock"),
    ],
)
def test_what_training_cannot_use_is_refused_in_one_line(argument, message):
    command = [sys.executable, "-m", "tf_dynacomm.tools.train", *argument.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("train.py: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


_TEXTS = st.text(max_size=12) | st.from_regex(r"-?[0-9.eE+]{1,8} ?[kKmMGg]?(bit/?s?|bps|B/s|ms|s)")


@inputs.fuzz
@given(_TEXTS, st.sampled_from([quantities.rate_bytes_per_s, quantities.time_s]))
def test_quantities_are_finite_numbers_or_refused(text, read):
    value = inputs.read_or_refused(read, text)
    assert value is None or 0 <= value < float("inf")


@inputs.fuzz
@given(st.text(max_size=12) | st.from_regex(r"\A(emulated:)?[a-z0-9]+(:[0-9.e-]{1,5}|:nan){0,4}\Z"))
def test_models_of_benchmarks_are_read_or_refused(text):
    inputs.read_or_refused(workload.Workload.parse, text)
