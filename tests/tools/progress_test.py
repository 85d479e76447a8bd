"""Tests of `tf_dynacomm.tools.progress`."""

import io
import threading

import pytest

from tf_dynacomm.tools import progress


class _Terminal(io.StringIO):
    def isatty(self):
        return True


class _Steps:
    """A count of finished steps that grows by a number at each look."""

    def __init__(self, growth):
        self._growth = growth
        self._finished = 100
        self.seen = threading.Event()

    def __call__(self):
        self._finished += self._growth
        if self._finished > 110:
            self.seen.set()
        return self._finished


def _show_epoch(stream, steps, interval_s=0.001):
    shown = progress.Progress(3, 10, steps, stream=stream, interval_s=interval_s)
    shown.begin_epoch(2)
    steps.seen.wait(30)
    shown.end_epoch()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("done", "steps_per_s", "text"),
    [
        (0, 0.0, "epoch 1/2   0/90 steps   0.0 steps/s"),
        (45, 10.0, "epoch 1/2   45/90 steps   10.0 steps/s   4 s left"),
        (90, 10.0, "epoch 1/2   90/90 steps   10.0 steps/s"),
    ],
)
def test_line(done, steps_per_s, text):
    assert progress.line(1, 2, done, 90, steps_per_s) == text


def test_plain_lines_where_there_is_no_terminal():
    lines = _show_epoch(io.StringIO(), _Steps(1)).splitlines()

    assert len(lines) > 1
    assert all(line.startswith("epoch 2/3   ") for line in lines)
    assert "\r" not in "".join(lines)


def test_one_line_is_rewritten_on_a_terminal():
    text = _show_epoch(_Terminal(), _Steps(1))

    assert text.count("\r") > 1
    assert text.count("\n") == 1
    assert text.endswith("\x1b[K\n")


def test_counts_from_the_start_of_the_epoch():
    assert _show_epoch(io.StringIO(), _Steps(1)).startswith("epoch 2/3   1/10 steps")


def test_never_shows_more_steps_than_there_are():
    assert "   10/10 steps" in _show_epoch(io.StringIO(), _Steps(25)).splitlines()[-1]


def test_closed_progress_leaves_no_thread():
    before = threading.active_count()
    shown = progress.Progress(1, 10, _Steps(0), stream=io.StringIO())
    shown.begin_epoch(1)

    shown.close()
    shown.close()

    assert threading.active_count() == before
