"""The wheel holds the package, its data and its commands."""

import configparser
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from tf_dynacomm import version

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built without the network from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in ("tf_dynacomm", "testdata"):
        shutil.copytree(ROOT / part, folder / part)
    for part in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, folder)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "."]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, f"{command}: {built.stdout}{built.stderr}"
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def _metadata(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(f"tf_dynacomm-{version.__version__}.dist-info/{name}").decode()


def test_every_module_is_in_the_wheel(wheel):
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("tf_dynacomm/**/*.py")}

    assert modules <= set(wheel.namelist())


def test_data_and_its_licence_are_in_the_wheel(wheel):
    images = wheel.read("tf_dynacomm/testdata/digits.npz")

    assert images == (ROOT / "testdata" / "digits.npz").read_bytes()
    assert b"CC BY 4.0" in wheel.read("tf_dynacomm/testdata/README.md")


def test_nothing_else_is_in_the_wheel(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}

    assert tops == {"tf_dynacomm", f"tf_dynacomm-{version.__version__}.dist-info"}


def test_commands_are_declared(wheel):
    commands = configparser.ConfigParser()
    commands.read_string(_metadata(wheel, "entry_points.txt"))

    assert dict(commands["console_scripts"]) == {
        "dynacomm-bench": "tf_dynacomm.tools.bench:run",
        "dynacomm-inspect": "tf_dynacomm.tools.inspect:run",
        "dynacomm-plan": "tf_dynacomm.tools.plan:run",
        "dynacomm-train": "tf_dynacomm.tools.train:run",
    }


def test_commands_exist(wheel):
    for module in ("bench", "inspect", "plan", "train"):
        assert b"def run(" in wheel.read(f"tf_dynacomm/tools/{module}.py")


def test_requirements_are_few_and_bounded(wheel):
    lines = _metadata(wheel, "METADATA").splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist") and "extra" not in line]

    assert len(required) == 5
    assert any("tensorflow" in line and "<2.22" in line and ">=2.20" in line for line in required)
    assert {"Requires-Python: >=3.11,<3.12", "Requires-Python: <3.12,>=3.11"} & set(lines)


def test_installed_package_finds_its_data(wheel, tmp_path):
    wheel.extractall(tmp_path)
    code = "from tf_dynacomm import datasets; print(datasets.load('digits').train_size)"
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True,
        text=True,
    )

    assert run.stdout == "1438\n", run.stderr
