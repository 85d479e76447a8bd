"""TensorFlow's profiler service and its messages: the one place in `profiling` that knows them.

Relies on: every `tf.distribute.Server` serving `tensorflow.ProfilerService/Profile`; its request
taking `emit_xspace` (field 9), which returns the trace in the response (field 8). TensorFlow's own
client instead has each host write its file to its own disk, where a chief on another machine cannot
read it. gRPC for Python comes with TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from tensorflow.tsl.profiler.protobuf import profiler_options_pb2, xplane_pb2

_METHOD = "/tensorflow.ProfilerService/Profile"
_PACKAGE = "tf_dynacomm.profiler"
_HOST_TRACER_LEVEL = 2  # Operations, executor and transfers.

XSpace = xplane_pb2.XSpace


class ServiceError(Exception):
    """A host's profiler gave no trace."""


def parse(data: bytes) -> XSpace:
    """Parses a serialized `XSpace`.

    Raises:
      ValueError: If it is none, or cut short.
    """
    try:
        return XSpace.FromString(data)
    except message.DecodeError as e:
        raise ValueError(str(e)) from e


def profile(
    addresses: Sequence[str], duration_s: float, timeout_s: float
) -> dict[str, XSpace | ServiceError]:
    """Records all hosts at once for `duration_s` seconds.

    Args:
      addresses: `host:port` of TensorFlow servers.
      duration_s: Seconds to record.
      timeout_s: Seconds after which a host that has not answered is given up, besides
        `duration_s`.

    Returns:
      The trace of each address, or why there is none.
    """
    channels = {a: grpc.insecure_channel(a, options=_CHANNEL_OPTIONS) for a in addresses}
    try:
        calls = {a: _call(channel, duration_s, timeout_s) for a, channel in channels.items()}
        return {address: _result(call) for address, call in calls.items()}
    finally:
        for channel in channels.values():
            channel.close()


_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0))


def _call(channel: grpc.Channel, duration_s: float, timeout_s: float) -> grpc.Future:
    method = channel.unary_unary(
        _METHOD,
        request_serializer=_Request.SerializeToString,
        response_deserializer=_Response.FromString,
    )
    duration_ms = max(1, round(duration_s * 1000))
    options = profiler_options_pb2.ProfileOptions(
        version=1, host_tracer_level=_HOST_TRACER_LEVEL, duration_ms=duration_ms
    )
    request = _Request(duration_ms=duration_ms, opts=options, emit_xspace=True)
    return method.future(request, timeout=duration_s + timeout_s)


def _result(call: grpc.Future) -> XSpace | ServiceError:
    try:
        return call.result().xspace
    except grpc.RpcError as e:
        return ServiceError(f"{e.code().name}: {e.details()}")


def _messages():
    """The two messages of the service, with the fields used here; TensorFlow ships none."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="tf_dynacomm/profiler_service.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[profiler_options_pb2.DESCRIPTOR.name, xplane_pb2.DESCRIPTOR.name],
    )
    request = file.message_type.add(name="ProfileRequest")
    request.field.add(name="duration_ms", number=1, type=field.TYPE_UINT64)
    request.field.add(
        name="opts",
        number=4,
        type=field.TYPE_MESSAGE,
        type_name=f".{profiler_options_pb2.ProfileOptions.DESCRIPTOR.full_name}",
    )
    request.field.add(name="emit_xspace", number=9, type=field.TYPE_BOOL)
    response = file.message_type.add(name="ProfileResponse")
    response.field.add(
        name="xspace",
        number=8,
        type=field.TYPE_MESSAGE,
        type_name=f".{XSpace.DESCRIPTOR.full_name}",
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    names = (f"{_PACKAGE}.ProfileRequest", f"{_PACKAGE}.ProfileResponse")
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


_Request, _Response = _messages()
