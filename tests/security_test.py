"""What the package never does with files, processes and ports."""

import ast
import ctypes
import os
import pathlib
import socket
import stat
import sys
import time

import pytest

from tf_dynacomm import files
from tf_dynacomm.testbed import local_cluster

_PACKAGE = pathlib.Path(files.__file__).parent
_SOURCES = sorted(_PACKAGE.rglob("*.py"))
_MODULES_THAT_UNPICKLE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
_EVALUATE = {"eval", "exec", "compile", "__import__"}
_UNSAFE = {("yaml", "load"), ("yaml", "unsafe_load"), ("os", "system"), ("os", "popen")}
_DEADLINE_S = 60
_PIDFD_GETFD = 438  # The system call, which Python has no name for.
_TEMPORARY = {"TemporaryFile", "TemporaryDirectory"}  # Unnamed, or of mode 0700.


def _dangers(source: str) -> list[str]:
    """What a module does that could run what it reads."""
    return [found for node in ast.walk(ast.parse(source)) for found in _danger(node)]


def _danger(node: ast.AST):
    match node:
        case ast.Import(names=names):
            yield from (n.name for n in names if n.name.split(".")[0] in _MODULES_THAT_UNPICKLE)
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] in _MODULES_THAT_UNPICKLE:
            yield module
        case ast.Call(func=ast.Name(id=name)) if name in _EVALUATE:
            yield name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in _UNSAFE:
            yield f"{module}.{name}"
        case ast.Attribute(value=ast.Name(id="tempfile"), attr=name) if name not in _TEMPORARY:
            yield f"tempfile.{name}"
        case ast.keyword(arg="shell" | "allow_pickle" as name, value=value):
            if not (isinstance(value, ast.Constant) and value.value is False):
                yield name


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from dill import loads", "import os.path, marshal", "eval(text)",
        "exec(text)", "yaml.load(file)", "os.system(line)", "run(line, shell=True)",
        "np.load(path, allow_pickle=True)", "np.load(path, allow_pickle=flag)",
        "tempfile.mktemp()", "tempfile.mkdtemp()",
    ],
)  # fmt: skip
def test_what_could_run_what_it_reads_is_seen(source):
    assert len(_dangers(source)) == 1


@pytest.mark.usefixtures("garbage_kept")
@pytest.mark.parametrize("path", _SOURCES, ids=lambda path: str(path.relative_to(_PACKAGE)))
def test_nothing_that_is_read_is_unpickled_or_evaluated(path):
    assert _dangers(path.read_text()) == []


@pytest.fixture
def _private_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


def _mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("_private_umask")
def test_files_are_private_where_the_umask_says_so(tmp_path):
    files.write_text(tmp_path / "summary.json", "{}")
    assert _mode(tmp_path / "summary.json") == 0o600


@pytest.mark.usefixtures("_private_umask")
def test_traces_are_private_where_the_umask_says_so(tmp_path):
    from tf_dynacomm.profiling import capture

    folder = capture._save({"10.0.0.1:2222": b"trace"}, tmp_path / "logdir")
    assert [_mode(path) for path in folder.iterdir()] == [0o600]
    assert _mode(folder) == _mode(tmp_path / "logdir") == 0o700


def test_a_link_is_replaced_and_nothing_outside_the_folder_is_written(tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("theirs")
    folder = tmp_path / "logdir"
    folder.mkdir()
    (folder / "plan.json").symlink_to(outside)
    files.write_text(folder / "plan.json", "ours")
    assert outside.read_text() == "theirs"
    assert (folder / "plan.json").read_text() == "ours"
    assert not (folder / "plan.json").is_symlink()


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    files.write_text("/dev/null", "text")
    files.write_text(link, "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert link.is_symlink()


def _devices(pid: int) -> dict[int, bytes]:
    """The ports on which another process of ours listens, and the device that they hear."""
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    devices = {}
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(descriptor).startswith("socket:"):
            copy = libc.syscall(_PIDFD_GETFD, process, int(descriptor.name), 0)
            assert copy >= 0, os.strerror(ctypes.get_errno())
            with socket.socket(fileno=copy) as sock:
                if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    device = sock.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
                    devices[sock.getsockname()[1]] = device
    os.close(process)
    return devices


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_all_ports_of_a_local_cluster_hear_the_loopback_interface_only():
    with local_cluster.LocalCluster(workers=1, ps=1) as cluster:
        for job in ("worker", "ps"):
            port = int(cluster.cluster_spec[job][0].rpartition(":")[2])
            deadline_s = time.monotonic() + _DEADLINE_S
            while (devices := _devices(cluster.pid(job, 0))) != {port: b"lo\0"}:
                assert time.monotonic() < deadline_s, devices
                time.sleep(0.05)  # A task is kept to this machine once TensorFlow has started.
