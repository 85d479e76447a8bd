"""TensorFlow's profiler service and its messages: the one place in `profiling` that knows them.

Relies on: every `tf.distribute.Server` serving `tensorflow.ProfilerService/Profile`; its request
taking `emit_xspace` (field 9), which returns the trace in the response (field 8). A host of
TensorFlow 2.20 does not know that field, and writes the trace to its own disk, as TensorFlow's own
client has it, to `<repository_root>/<session_id>/<host_name>.xplane.pb`; there an operation on that
host reads it, since the disk may be another machine's. A host serves one session at a time, and
says so (`_BUSY`). gRPC for Python comes with TensorFlow.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import grpc
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.tsl.profiler.protobuf import profiler_options_pb2

_METHOD = "/tensorflow.ProfilerService/Profile"
_PACKAGE = "tf_dynacomm.profiler"
_HOST_TRACER_LEVEL = 2  # Operations, executor and transfers.
# On the disk of a host; this process's own. Operations cannot delete, but empty a file.
_FOLDER = f"/tmp/tf_dynacomm_{uuid.uuid4().hex}"
_FILE = "trace"
_BUSY = "Another profiling session active"


class ServiceError(Exception):
    """A host's profiler gave no trace.

    Attributes:
      busy: Whether that is because a profiler session of someone else runs there.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.busy = _BUSY in message


def profile(
    devices: Mapping[str, str], duration_s: float, timeout_s: float
) -> dict[str, bytes | ServiceError]:
    """Records all hosts at once for `duration_s` seconds.

    Args:
      devices: The hosts: `host:port` of TensorFlow servers, each with the device of its task
        (`/job:ps/task:0`) in the cluster that this process has joined.
      duration_s: Seconds to record.
      timeout_s: Seconds after which a host that has not answered is given up, besides
        `duration_s`.

    Returns:
      The trace of each address, a serialized `XSpace`, or why there is none.
    """
    channels = {a: grpc.insecure_channel(a, options=_CHANNEL_OPTIONS) for a in devices}
    try:
        calls = {a: _call(channel, a, duration_s, timeout_s) for a, channel in channels.items()}
        return {a: _result(call, a, devices[a]) for a, call in calls.items()}
    finally:
        for channel in channels.values():
            channel.close()


_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))


def _call(channel: grpc.Channel, address: str, duration_s: float, timeout_s: float) -> grpc.Future:
    method = channel.unary_unary(
        _METHOD,
        request_serializer=_Request.SerializeToString,
        response_deserializer=_Response.FromString,
    )
    duration_ms = max(1, round(duration_s * 1000))
    options = profiler_options_pb2.ProfileOptions(
        version=1, host_tracer_level=_HOST_TRACER_LEVEL, duration_ms=duration_ms
    )
    request = _Request(
        duration_ms=duration_ms,
        opts=options,
        repository_root=_FOLDER,
        session_id=_session(address),
        host_name=_FILE,
        emit_xspace=True,
    )
    return method.future(request, timeout=duration_s + timeout_s)


def _result(call: grpc.Future, address: str, device: str) -> bytes | ServiceError:
    try:
        return call.result().xspace or _take_file(address, device)
    except grpc.RpcError as e:
        return ServiceError(f"{e.code().name}: {e.details()}")
    except tf.errors.OpError as e:
        return ServiceError(f"its file cannot be read there: {e.message}")


def _take_file(address: str, device: str) -> bytes:
    """What a host of TensorFlow 2.20 has written; leaves an empty file there."""
    path = f"{_FOLDER}/{_session(address)}/{_FILE}.xplane.pb"
    with tf.device(device):
        content = tf.io.read_file(path).numpy()
        tf.io.write_file(path, "")
    return content


def _session(address: str) -> str:
    """A name for the folder of a host, for several may share a disk."""
    return address.replace(":", "_")


def _messages():
    """The two messages of the service, with the fields used here; TensorFlow ships none."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="tf_dynacomm/profiler_service.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[profiler_options_pb2.DESCRIPTOR.name],
    )
    request = file.message_type.add(name="ProfileRequest")
    request.field.add(name="duration_ms", number=1, type=field.TYPE_UINT64)
    request.field.add(
        name="opts",
        number=4,
        type=field.TYPE_MESSAGE,
        type_name=f".{profiler_options_pb2.ProfileOptions.DESCRIPTOR.full_name}",
    )
    request.field.add(name="repository_root", number=5, type=field.TYPE_STRING)
    request.field.add(name="session_id", number=6, type=field.TYPE_STRING)
    request.field.add(name="host_name", number=7, type=field.TYPE_STRING)
    request.field.add(name="emit_xspace", number=9, type=field.TYPE_BOOL)
    response = file.message_type.add(name="ProfileResponse")
    # A message is on the wire as bytes are; it is left unparsed, since it can be large.
    response.field.add(name="xspace", number=8, type=field.TYPE_BYTES)
    pool = descriptor_pool.Default()
    pool.Add(file)
    names = (f"{_PACKAGE}.ProfileRequest", f"{_PACKAGE}.ProfileResponse")
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


_Request, _Response = _messages()
