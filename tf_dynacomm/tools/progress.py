"""A progress line for training whose steps run elsewhere."""

from __future__ import annotations

import collections
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_TERMINAL_INTERVAL_S = 0.5
_PLAIN_INTERVAL_S = 10.0
_RATE_WINDOW = 10
_CLEAR_TO_END = "\x1b[K"


def line(epoch: int, epochs: int, done: int, steps: int, steps_per_s: float) -> str:
    """Describes the progress in an epoch.

    >>> line(2, 5, 30, 90, 12.0)
    'epoch 2/5   30/90 steps   12.0 steps/s   5 s left'
    """
    text = f"epoch {epoch}/{epochs}   {done}/{steps} steps   {steps_per_s:.1f} steps/s"
    if done >= steps or not steps_per_s:
        return text
    return f"{text}   {(steps - done) / steps_per_s:.0f} s left"


class Progress:
    """Shows how far the current epoch is: in place on a terminal, else in a line now and then.

    Args:
      epochs: Number of epochs.
      steps_per_epoch: Number of steps in each.
      steps_finished: Returns how many steps have been finished so far. It is called from a thread.
      stream: Where to write.
      interval_s: Seconds between updates. Default: 0.5 on a terminal, 10 elsewhere.
    """

    def __init__(
        self,
        epochs: int,
        steps_per_epoch: int,
        steps_finished: Callable[[], int],
        *,
        stream: TextIO = sys.stderr,
        interval_s: float | None = None,
    ):
        self._epochs = epochs
        self._steps = steps_per_epoch
        self._steps_finished = steps_finished
        self._stream = stream
        self._on_terminal = stream.isatty()
        default_s = _TERMINAL_INTERVAL_S if self._on_terminal else _PLAIN_INTERVAL_S
        self._interval_s = default_s if interval_s is None else interval_s
        self._thread: threading.Thread | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Starts to show an epoch, counted from 1."""
        self._epoch = epoch
        self._begun_s = time.monotonic()
        self._steps_before = self._steps_finished()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._thread.start()

    def end_epoch(self) -> None:
        """Shows the epoch's last state, with the rate over all of it, and leaves it there."""
        self.close()
        duration_s = time.monotonic() - self._begun_s
        self._show(self._done(), self._done() / duration_s)
        self._write("\n" if self._on_terminal else "")

    def close(self) -> None:
        """Shows nothing more until an epoch begins."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        samples = collections.deque([(self._begun_s, 0)], maxlen=_RATE_WINDOW)
        while not self._ended.wait(self._interval_s):
            samples.append((time.monotonic(), self._done()))
            (start_s, first), (end_s, last) = samples[0], samples[-1]
            self._show(last, (last - first) / (end_s - start_s))

    def _done(self) -> int:
        return min(self._steps_finished() - self._steps_before, self._steps)

    def _show(self, done: int, steps_per_s: float) -> None:
        text = line(self._epoch, self._epochs, done, self._steps, steps_per_s)
        self._write(f"\r{text}{_CLEAR_TO_END}" if self._on_terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
