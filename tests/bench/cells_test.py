import time

import pytest

from tf_dynacomm.bench import cells, programs
from tf_dynacomm.bench.workload import Workload
from tf_dynacomm.testbed import links as links_lib
from tf_dynacomm.testbed.link import Link


@pytest.mark.cluster
def test_real_model_trains():
    links = links_lib.Links(Link(), how="relay")

    with programs.running(Workload.parse("small_cnn", batch_size=2), links, 1) as program:
        program.run(1)
        assert cells.timed_s(program, None, 1) > 0


@pytest.mark.cluster
def test_worker_becomes_slow():
    workload = Workload.parse("emulated:vgg19:0.0001:0.05:0.05")
    with programs.running(workload, links_lib.Links(Link(), how="relay"), 2) as program:
        program.run(2)
        program.slowness.set(1, 10.0)
        slow_since_s, longest_s, rounds = time.perf_counter(), 0.0, 0
        while longest_s <= 0.99 * 1.0 and rounds < 5:  # Some data were fetched before.
            program.run(3)
            rounds += 1
            longest_s = max(program.step.intervals_s(slow_since_s, worker=1), default=0.0)
        assert longest_s > 0.99 * 1.0
