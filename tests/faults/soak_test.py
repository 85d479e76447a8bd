"""A training disturbed all the time loses nothing and leaves nothing behind."""

import pytest

from tests.faults import soak

pytestmark = pytest.mark.cluster


def test_nothing_is_lost_and_nothing_piles_up(cluster):
    disturbed = soak.Soak(steps=200, changes=10, kills=1)
    run = disturbed.train(cluster, stock=False)
    assert run.steps_counted >= run.steps_asked
    assert disturbed.done["changes"] >= 9  # The first plan may be in force by chance.
    assert disturbed.done["kills"] == 1
    for task in ("chief", "worker 0", "ps 0"):
        early, _, late = disturbed.usage[task]
        assert late.threads <= early.threads + 16
        assert late.files <= early.files + 8
