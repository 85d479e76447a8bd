"""Tests of `tf_dynacomm.tools.command`."""

import os
import signal
import subprocess
import sys

import pytest

from tf_dynacomm.tools import command

_PROGRAM = """
import sys, time
from absl import flags, logging
from tf_dynacomm.tools import command
flags.DEFINE_integer("count", 1, "", lower_bound=1)
def main(argv):
    try:
        logging.info("information")
        logging.warning("a warning")
        {body}
    finally:
        print("cleaned up", flush=True)
sys.argv[0] = "/bin/tool"
command.run(main)
"""


def _run(*arguments, body="pass") -> subprocess.CompletedProcess:
    program = [sys.executable, "-c", _PROGRAM.format(body=body), *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=60)


def test_normal_end():
    done = _run("--count=2")

    assert (done.returncode, done.stdout) == (0, "cleaned up\n")


def test_user_error_is_one_line():
    done = _run(body="raise command.UserError('the file is red')")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "tool: the file is red"
    assert "Traceback" not in done.stderr


def test_other_errors_keep_their_traceback():
    assert "Traceback" in _run(body="raise RuntimeError").stderr


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--count=0", "tool: flag --count=0: 0 is not a positive integer\n"),
        ("--cuont=1", "tool: Unknown command line flag 'cuont'. Did you mean: count ?\n"),
        ("count", "tool: unknown argument count: flags begin with --\n"),
    ],
)
def test_wrong_flags_are_told_in_one_line(argument, message):
    done = _run(argument)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_help_works():
    assert "--count" in _run("--helpfull").stdout


def test_warnings_are_shown_and_information_on_request():
    assert "a warning" in _run().stderr
    assert "information" not in _run().stderr
    assert "information" in _run("--verbosity=0").stderr


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_blocks_in_order(signal_number):
    program = _PROGRAM.format(body="print('up', flush=True); time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal_number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (128 + signal_number, "cleaned up\n")
    assert "Traceback" not in err


def test_an_exit_that_native_code_turns_into_an_error_is_still_an_exit():
    body = """
        import os, signal
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit as exit:
            raise SystemError("returned a result with an exception set") from exit"""
    done = _run(body=body)

    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "cleaned up\n")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [ValueError("wrong"), FileNotFoundError("wrong")])
def test_user_errors_name_source_and_remedy(error):
    with (
        pytest.raises(command.UserError, match=r"^--file: wrong: do better\.$"),
        command.user_errors("--file", "do better"),
    ):
        raise error


def test_folder_is_made(tmp_path):
    command.make_folder("--logdir", tmp_path / "a" / "b")

    assert os.path.isdir(tmp_path / "a" / "b")


def test_no_folder_is_fine():
    command.make_folder("--logdir", None)


def test_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(command.UserError, match=r"--logdir: .*file'?: name a folder that you may"):
        command.make_folder("--logdir", tmp_path / "file")


def test_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    with pytest.raises(command.UserError, match=r"--logdir: .*Permission denied"):
        command.make_folder("--logdir", tmp_path)
