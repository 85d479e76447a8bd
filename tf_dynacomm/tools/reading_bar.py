"""A progress bar for reading large files."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 30
_INTERVAL_S = 0.1
_CLEAR = "\r\x1b[K"


class ReadingBar:
    """Shows how much of some files has been read, on a terminal; elsewhere it shows nothing.

    Args:
      total_bytes: Their size.
      stream: Where to write.
    """

    def __init__(self, total_bytes: int, stream: TextIO = sys.stderr):
        self._total_bytes = total_bytes
        self._stream = stream
        self._visible = stream.isatty()
        self._read_bytes = 0
        self._shown_s = float("-inf")

    def __call__(self, size_bytes: int) -> None:
        """Takes note that so much more has been read."""
        self._read_bytes += size_bytes
        now_s = time.monotonic()
        if self._visible and now_s - self._shown_s >= _INTERVAL_S:
            self._shown_s = now_s
            self._stream.write(f"{_CLEAR}{bar(self._read_bytes, self._total_bytes)}")
            self._stream.flush()

    def close(self) -> None:
        """Takes the bar away."""
        if self._visible:
            self._stream.write(_CLEAR)
            self._stream.flush()


def bar(read_bytes: int, total_bytes: int) -> str:
    """Describes how far reading is.

    >>> bar(50_000_000, 200_000_000)
    'reading [#######                       ] 50 of 200 MB'
    """
    share = min(read_bytes / total_bytes, 1.0) if total_bytes else 1.0
    filled = "#" * int(share * _WIDTH)
    return f"reading [{filled:<{_WIDTH}}] {read_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB"
