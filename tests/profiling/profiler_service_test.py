"""A stand-in for a host's profiler, that answers as TensorFlow 2.20 does: it writes a file."""

import pathlib
from concurrent import futures

import grpc
import pytest

from tf_dynacomm.profiling import profiler_service

_CPU = "/device:CPU:0"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(profiler_service, "_FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture
def host():
    """Starts hosts whose profilers do with a request what they are told to."""
    servers = []

    def start(answer) -> str:
        method = grpc.unary_unary_rpc_method_handler(
            lambda request, _: answer(request),
            request_deserializer=profiler_service._Request.FromString,
            response_serializer=profiler_service._Response.SerializeToString,
        )
        server = grpc.server(futures.ThreadPoolExecutor(1))
        generic = grpc.method_handlers_generic_handler(
            "tensorflow.ProfilerService", {"Profile": method}
        )
        server.add_generic_rpc_handlers((generic,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None)


def _in_the_response(request):
    return profiler_service._Response(xspace=b"trace" if request.emit_xspace else b"")


def _in_a_file(request):
    session = pathlib.Path(request.repository_root) / request.session_id
    session.mkdir()
    (session / f"{request.host_name}.xplane.pb").write_bytes(b"trace")
    return profiler_service._Response()


def _nowhere(_):
    return profiler_service._Response()


def test_a_trace_in_the_response_leaves_no_file(host, folder):
    address = host(_in_the_response)
    assert profiler_service.profile({address: _CPU}, 0.01, 10.0) == {address: b"trace"}
    assert not list(folder.iterdir())


def test_traces_in_files_are_read_and_emptied(host, folder):
    devices = {host(_in_a_file): _CPU, host(_in_a_file): _CPU}
    assert profiler_service.profile(devices, 0.01, 10.0) == dict.fromkeys(devices, b"trace")
    assert [f.read_bytes() for f in folder.glob("*/*")] == [b"", b""]


def test_no_trace_anywhere_is_an_error(host, folder):
    address = host(_nowhere)
    error = profiler_service.profile({address: _CPU}, 0.01, 10.0)[address]
    with pytest.raises(profiler_service.ServiceError, match=r"cannot be read there: .*xplane\.pb"):
        raise error
    assert not error.busy
