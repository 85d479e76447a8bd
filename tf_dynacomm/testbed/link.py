"""`Link`: the rates and the latency of one task's link."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Link:
    """The rates and the latency of a link.

        >>> Link(down_bytes_per_s=250e6 / 8, up_bytes_per_s=60e6 / 8, latency_s=0.01).latency_s
        0.01

    Attributes:
      down_bytes_per_s: Rate towards the task; not limited if infinite.
      up_bytes_per_s: Rate from the task; not limited if infinite.
      latency_s: Seconds that everything is under way, each way, besides its bytes.

    Raises:
      ValueError: A rate is not positive, or the latency is negative or not finite.
    """

    down_bytes_per_s: float = math.inf
    up_bytes_per_s: float = math.inf
    latency_s: float = 0.0

    def __post_init__(self):
        for name in ("down_bytes_per_s", "up_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` ({getattr(self, name)}) must be positive.")
        if not 0 <= self.latency_s < math.inf:
            raise ValueError(f"`latency_s` ({self.latency_s}) must be finite and not negative.")
