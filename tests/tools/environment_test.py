"""Tests of `tf_dynacomm.tools.environment`."""

import os
import subprocess
import sys

import pytest

from tf_dynacomm.tools import environment


def _load(code="", **variables) -> subprocess.CompletedProcess:
    program = f"from tf_dynacomm.tools import environment; environment.load_tensorflow(); {code}"
    env = {k: v for k, v in os.environ.items() if k not in ("TF_CPP_MIN_LOG_LEVEL",)}
    return subprocess.run(
        [sys.executable, "-c", program], env={**env, **variables}, capture_output=True, text=True
    )


def test_loading_is_silent():
    done = _load("import tensorflow as tf; print(tf.constant(1) + 1)")

    assert (done.returncode, done.stderr) == (0, "")
    assert "tf.Tensor(2" in done.stdout


def test_notes_are_shown_on_request():
    assert "oneDNN" in _load(TF_CPP_MIN_LOG_LEVEL="0").stderr


def test_what_the_user_has_set_stays(monkeypatch):
    chosen = {"CUDA_VISIBLE_DEVICES": "7", "TF_CPP_MIN_LOG_LEVEL": "1"}
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)

    environment.load_tensorflow()

    assert {name: os.environ[name] for name in chosen} == chosen


def test_errors_are_not_hidden(capfd):
    def fail():
        with environment._stderr_set_aside():
            os.write(2, b"why\n")
            raise ImportError

    with pytest.raises(ImportError):
        fail()

    assert capfd.readouterr().err == "why\n"


def test_stderr_is_itself_again_afterwards(capfd):
    with environment._stderr_set_aside():
        os.write(2, b"hidden\n")
    os.write(2, b"shown\n")

    assert capfd.readouterr().err == "shown\n"
