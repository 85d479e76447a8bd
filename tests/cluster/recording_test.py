"""Trainings that plan nothing leave a trace, from which to see what planning would gain."""

import pytest

import tf_dynacomm
from tests.cluster import programs
from tf_dynacomm.profiling import analysis, run

pytestmark = pytest.mark.cluster


def test_a_training_as_stock_keeps_a_trace_and_its_step(cluster_1w1p, tmp_path):
    strategy = programs.make_strategy(cluster_1w1p, scheduler="stock")
    model = programs.build_cnn(strategy)
    replan = tf_dynacomm.ReplanCallback(logdir=tmp_path)
    model.fit(
        programs.dataset_creator(), epochs=2, steps_per_epoch=150, verbose=0, callbacks=[replan]
    )

    found = analysis.analyse(run.load(tmp_path), 0)
    assert (found.plan, found.layers) == (None, strategy.coordinator.training_step.layers)
    assert found.steps
    assert [report.replanned for report in replan.reports] == [False, False]
    assert len(list((tmp_path / "plugins" / "profile").iterdir())) == 1
