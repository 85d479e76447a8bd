"""Rates and times as people write them: `10Gbps`, `1.5ms`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_PER_BYTE_PER_S = {
    f"{prefix}{unit}": bits / factor
    for prefix, factor in {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}.items()
    for unit, bits in {"bps": 8, "bit": 8, "bit/s": 8, "B/s": 1}.items()
} | {"mbit": 8 / 1e6, "gbit": 8 / 1e9}  # As `tc` writes them.
_PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "µs": 1e6}


def rate_bytes_per_s(text: str) -> float:
    """Reads a rate of a link.

    >>> rate_bytes_per_s("10Gbps"), rate_bytes_per_s("250 Mbit/s"), rate_bytes_per_s("1.5MB/s")
    (1250000000.0, 31250000.0, 1500000.0)
    >>> rate_bytes_per_s("250mbit")
    31250000.0

    Raises:
      ValueError: If `text` is no positive, finite number with a unit of rates.
    """
    value = _quantity(text, _PER_BYTE_PER_S, "a rate such as 10Gbps, 250mbit or 30MB/s")
    if not value > 0:
        raise ValueError(f"a rate ({text}) must be positive.")
    return value


def time_s(text: str) -> float:
    """Reads a time.

    >>> time_s("1ms"), time_s("20us"), time_s("0.5 s")
    (0.001, 2e-05, 0.5)

    Raises:
      ValueError: If `text` is no finite number with a unit of time.
    """
    return _quantity(text, _PER_SECOND, "a time such as 1ms, 20us or 0.5s")


def _quantity(text: str, units: Mapping[str, float], expected: str) -> float:
    match = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*(\S+)\s*", text)
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} must be {expected}.")
    value = float(match[1]) / units[match[2]]
    if not math.isfinite(value):
        raise ValueError(f"{text!r} must be finite.")
    return value
