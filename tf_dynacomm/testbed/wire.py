"""A wire with latency: two network devices whose frames come out at the other after a while.

    python -m tf_dynacomm.testbed.wire NEAR FAR LATENCY_S

makes the TAP devices NEAR and FAR in the network namespace that it runs in, says `ready`, and ends,
the devices with it, when standard input is closed. A device may be moved to another namespace
meanwhile. The kernel hands over what TCP sends in one piece (up to 64 KiB) as one frame, so that
1 Gbit/s are some two thousand frames a second. Linux only; needs CAP_NET_ADMIN.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import os
import select
import struct
import sys
import time
from collections.abc import Sequence

_DEVICE = "/dev/net/tun"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_OFFLOADS = 0x01 | 0x02 | 0x04  # Checksums, and TCP segmentation for IPv4 and IPv6.
_FRAME_BYTES = 1 << 17


def open_tap(name: str) -> int:
    """Makes a TAP device that lives as long as the returned file descriptor.

    Raises:
      OSError: The kernel refuses.
    """
    tap = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tap, _TUNSETOFFLOAD, _OFFLOADS)
    return tap


def carry(near: int, far: int, latency_s: float, until: int) -> None:
    """Passes frames both ways, each `latency_s` seconds after it came, until `until` is readable.

    Args:
      near: File descriptor of one device.
      far: File descriptor of the other.
      latency_s: Seconds that each frame is under way.
      until: File descriptor.
    """
    other = {near: far, far: near}
    under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
    while True:
        wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select([near, far, until], [], [], wait_s)
        if until in ready:
            return
        now_s = time.monotonic()
        for device in ready:
            for frame in _frames(device):
                under_way.append((now_s + latency_s, other[device], frame))
        while under_way and under_way[0][0] <= now_s:
            _, device, frame = under_way.popleft()
            with contextlib.suppress(OSError):  # A device that is down loses frames, as any wire.
                os.write(device, frame)


def _frames(device: int):
    with contextlib.suppress(OSError):  # No more frames, or the device is down.
        while True:
            yield os.read(device, _FRAME_BYTES)


def main(argv: Sequence[str]) -> None:
    """Makes the devices and carries frames between them."""
    near, far, latency_s = argv
    devices = open_tap(near), open_tap(far)
    print("ready", flush=True)
    carry(*devices, float(latency_s), sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
