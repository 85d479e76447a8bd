import configparser
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from tf_dynacomm import tensorflow_version

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("version", ["2.20.0", "2.20.1", "2.21.0-rc1", "2.21.3"])
def test_tested_versions_pass(monkeypatch, version):
    monkeypatch.setattr(tf, "__version__", version)
    tensorflow_version.check()


@pytest.mark.parametrize("version", ["1.15.5", "2.2.0", "2.19.1", "2.22.0-dev20260101", "3.20.0"])
def test_other_versions_are_refused_with_the_remedy(monkeypatch, version):
    monkeypatch.setattr(tf, "__version__", version)
    message = rf"TensorFlow \({version}\) must be .*: pip install 'tensorflow>=2\.20,<2\.22'$"
    with pytest.raises(ImportError, match=message):
        tensorflow_version.check()


_IMPORTS = """
import importlib, sys, tensorflow
tensorflow.__version__ = "2.19.0"
sys.modules["tensorflow.tsl"] = sys.modules["tensorflow.python.distribute.coordinator"] = None
for name in (
    "strategy",
    "callbacks",
    "profiling.profiler_service",
    "runtime.tf_internals",
    "runtime.tf_coordinator",
):
    try:
        importlib.import_module(f"tf_dynacomm.{name}")
    except ImportError as e:
        print(e)
"""


def test_the_check_comes_before_what_is_not_public():
    command = [sys.executable, "-c", _IMPORTS]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.count("TensorFlow (2.19.0) must be") == 5, run.stdout + run.stderr


def test_packages_are_required_in_these_versions():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = setup["options"]["install_requires"].split()
    assert tensorflow_version.REQUIREMENT in required
    assert tensorflow_version.REQUIREMENT.replace("tensorflow", "tf-keras") in required


def test_the_oldest_version_is_among_the_oldest_packages():
    pins = (ROOT / "build_tools" / "oldest.txt").read_text().split()
    oldest = ".".join(map(str, tensorflow_version.OLDEST))
    assert {f"tensorflow=={oldest}.*", f"tf-keras=={oldest}.*"} <= set(pins)
