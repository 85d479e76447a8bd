import threading
import types

import numpy as np
import pytest

from tf_dynacomm import policy, proposal, replan, trial
from tf_dynacomm.costs import LayerCosts
from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import capture, link, measure, trace

_SLOW = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])
_FAST = Plan([(1, 2)], [(1, 2)])


_COSTS = LayerCosts([0, 0], [0.1, 0.1], [0.1, 0.1], [0, 0], overhead_s=0.2)


class _Step:
    """A training step that takes plans and runs nothing."""

    def __init__(self, plan=_SLOW):
        self.first_plan = self.plan = plan
        self.plans = []
        self.times = [(0.0, 9.0)]  # (start, seconds to the next one's).

    def plan_of(self, worker):
        return self.plan

    def set_plan(self, plan, workers):
        self.plans.append(plan)
        self.plan = plan

    def intervals_s(self, since_s=0.0, worker=None, plan=None):
        return np.array([length for start, length in self.times if start >= since_s])


class _Planner:
    """Hands out the outcomes of a script, one for each time that it is asked."""

    def __init__(self, outcomes):
        self.outcomes = list(outcomes)
        self.starts = self.recordings = self.stops = 0
        self.loading = False
        self.remaining_steps, self.trials, self.verdicts = [], [], []

    def start(self, remaining_steps=None):
        self.starts += 1
        self.remaining_steps.append(remaining_steps)

    def start_recording(self):
        self.recordings += 1

    def try_out(self, trial):
        self.trials.append(trial)

    def take_verdicts(self):
        verdicts, self.verdicts = self.verdicts, []
        return verdicts

    def take(self, wait_s):
        return self.outcomes.pop(0)

    def stop(self):
        self.stops += 1


def _decision(step, plan=None, current=_SLOW, costs=_COSTS, reason=None):
    """The decision to change to a plan, or, without one, to keep the current one."""
    rates = link.Link(0.1, 1e6), link.Link(0.2, 2e6)
    measurement = measure.Measurement(costs, *rates, 1.0, 0.75, 8, {})
    proposed = proposal.WorkerProposal(current, plan or current, measurement, outside_s=0.5)
    plans = {} if plan is None else {0: plan}
    return policy.Decision(proposal.Proposal(step, {0: proposed}), plans, reason)


@pytest.fixture
def step():
    return _Step()


@pytest.fixture
def make(monkeypatch, step):
    """Makes a `Replanner` whose planner follows a script; it is always 100 s."""
    monkeypatch.setattr(replan.time, "perf_counter", lambda: 100.0)

    def make_replanner(*outcomes, plans_itself=True, **kwargs):
        scripted = _Planner(outcomes)
        monkeypatch.setattr(replan.planner_lib, "Planner", lambda *args: scripted)
        coordinator = types.SimpleNamespace(training_step=step, steps_finished=0, failing=False)
        tasks = capture.Tasks(("worker:1",), ("ps:1",))
        strategy = types.SimpleNamespace(
            coordinator=coordinator, plans_itself=plans_itself, scheduler="dynacomm", tasks=tasks
        )
        return replan.Replanner(strategy, **kwargs), scripted

    return make_replanner


def _epochs(replanner, count):
    reports = []
    for epoch in range(1, count + 1):
        replanner.begin_epoch()
        reports.append(replanner.end_epoch(epoch))
    return reports


def test_a_faster_plan_is_used_from_the_end_of_its_epoch(make, step):
    replanner, _ = make(_decision(step, _FAST))
    replanner.begin_epoch()
    assert step.plan == _SLOW
    report = replanner.end_epoch(1)
    assert step.plans == [_FAST]
    assert (report.replanned, report.reason) == (True, None)


def test_a_plan_that_is_still_loaded_is_told(make):
    replanner, scripted = make(None)
    scripted.loading = True
    (report,) = _epochs(replanner, 1)
    assert report.reason == "workers are still loading a new plan"


def test_a_training_that_was_never_planned_says_why_at_its_end(make, caplog):
    replanner, _ = make(None, None)
    _epochs(replanner, 2)
    assert not caplog.records
    replanner.close()
    (told,) = caplog.messages
    assert told == (
        "The training kept its first plan: the epoch ended before a trace of it had been taken."
    )


def test_a_training_that_was_planned_says_nothing_at_its_end(make, step, caplog):
    replanner, _ = make(_decision(step, _FAST), None)
    _epochs(replanner, 2)
    replanner.close()
    assert not caplog.records


def test_a_training_without_a_step_that_can_be_planned_says_so(make):
    replanner, _ = make(None)
    replanner._strategy.coordinator.training_step = None
    (report,) = _epochs(replanner, 1)
    assert report.reason.startswith("no step has run that can be planned")


def test_each_epoch_gets_its_own_decision(make, step):
    error = trace.TraceError("the trace of worker 0 was lost")
    kept = _decision(step, reason="the plan in force is the best one")
    replanner, scripted = make(None, _decision(step, _FAST), error, kept)
    reports = _epochs(replanner, 4)
    assert [r.epoch for r in reports] == [1, 2, 3, 4]
    assert [r.replanned for r in reports] == [False, True, False, False]
    assert [r.reason for r in reports] == [
        "the epoch ended before a trace of it had been taken",
        None,
        "the trace of worker 0 was lost",
        "the plan in force is the best one",
    ]
    assert step.plans == [_FAST]
    assert scripted.starts == 4


def test_a_new_plan_is_on_trial(make, step):
    replanner, scripted = make(_decision(step, _FAST), None)
    _epochs(replanner, 2)
    assert [type(t) for t in scripted.trials] == [trial.Trial]


def test_a_trial_that_went_wrong_is_told(make, step):
    replanner, scripted = make(_decision(step, _FAST), _decision(step, reason="no better one"))
    _epochs(replanner, 1)
    scripted.verdicts = [trial.Verdict(0, _FAST, _SLOW, 1.1, 1.0, stays=False)]
    replanner.begin_epoch()
    assert replanner.end_epoch(2).reason == (
        "no better one; the new plan was 10.0% slower on worker 0: the plan before it is back"
    )


def test_that_a_plan_has_proved_itself_is_no_news(make, step):
    replanner, scripted = make(None)
    scripted.verdicts = [trial.Verdict(0, _FAST, _SLOW, 0.9, 1.0, stays=True)]
    assert "0.9" not in _epochs(replanner, 1)[0].reason


def test_stock_is_left_when_its_pace_changes(make, step):
    replanner, _ = make(None)
    replanner._policy.learn([trial.Verdict(0, None, _FAST, 1.0, 2.0, stays=True)])
    step.plan = None
    step.times = [(100.5, 3.0)]
    report = _epochs(replanner, 1)[0]
    assert (report.pull_segments_before, report.pull_segments_after) == (0, 1)
    assert step.plan == _FAST


def test_the_planner_is_told_how_long_a_plan_will_serve(make):
    replanner, scripted = make()
    replanner.begin_epoch(remaining_steps=300)
    assert scripted.remaining_steps == [300]


def test_predictions_are_those_of_the_costs(make, step):
    (report,) = _epochs(make(_decision(step, _FAST))[0], 1)
    assert report.predicted_step_time_s == pytest.approx(2 * (0.2 + 0.2 + 0.1) + 0.5)
    assert report.predicted_next_step_time_s == pytest.approx(2 * (0.2 + 0.2) + 0.5)


def test_a_report_has_what_was_measured(make, step):
    (report,) = _epochs(make(_decision(step, _FAST))[0], 1)
    assert report.matched_share == 0.75
    assert (report.overhead_pull_s, report.overhead_push_s) == (0.1, 0.2)
    assert (report.rate_down_bytes_per_s, report.rate_up_bytes_per_s) == (1e6, 2e6)


def test_without_a_decision_nothing_is_claimed_to_be_measured(make):
    (report,) = _epochs(make(None)[0], 1)
    assert (report.predicted_step_time_s, report.matched_share) == (None, None)
    assert (report.overhead_pull_s, report.rate_up_bytes_per_s) == (None, None)


def test_a_report_has_the_segments_before_and_after(make, step):
    reports = _epochs(make(_decision(step, _FAST), None)[0], 2)
    pulls = [(r.pull_segments_before, r.pull_segments_after) for r in reports]
    pushes = [(r.push_segments_before, r.push_segments_after) for r in reports]
    assert pulls == pushes == [(2, 1), (1, 1)]


def test_the_step_time_is_the_median_of_the_epoch(make, step):
    replanner, _ = make(None)
    step.times += [(100.5, 1.0), (101.5, 3.0), (104.5, 2.0)]
    assert _epochs(replanner, 1)[0].step_time_s == 2.0


def test_an_epoch_without_steps_has_no_step_time(make):
    assert np.isnan(_epochs(make(None)[0], 1)[0].step_time_s)


def test_a_first_epoch_is_told_from_the_plan_that_it_began_with(make, step):
    """The step is traced within the epoch: none is known when it begins."""
    replanner, _ = make(_decision(step, _FAST))
    replanner._strategy.coordinator.training_step = None
    replanner.begin_epoch()
    replanner._strategy.coordinator.training_step = step
    report = replanner.end_epoch(1)
    assert (report.pull_segments_before, report.pull_segments_after) == (2, 1)


def test_a_program_that_never_trains_is_reported(make):
    replanner, _ = make(None)
    replanner._strategy.coordinator.training_step = None
    (report,) = _epochs(replanner, 1)
    assert (report.pull_segments_before, report.replanned) == (0, False)


def test_a_plan_set_by_hand_is_never_replaced(make, step):
    replanner, scripted = make(plans_itself=False)
    (report,) = _epochs(replanner, 1)
    assert (scripted.starts, step.plans) == (0, [])
    assert (report.replanned, report.reason, report.pull_segments_after) == (False, None, 2)


def test_a_training_that_does_not_plan_keeps_one_trace_if_it_may(make, step, tmp_path, caplog):
    failure = trace.TraceError("the port is closed")
    replanner, scripted = make(failure, None, plans_itself=False, logdir=tmp_path)
    replanner._strategy.coordinator.training_step = None
    replanner.begin_epoch()
    replanner._strategy.coordinator.training_step = step
    replanner.end_epoch(1)
    _epochs(replanner, 1)
    assert (scripted.starts, scripted.recordings) == (0, 1)
    assert "No trace was kept: the port is closed" in caplog.text


def test_costs_and_plan_of_each_epoch_are_kept(make, step, tmp_path):
    replanner, _ = make(_decision(step, _FAST), None, logdir=tmp_path / "new")
    _epochs(replanner, 2)
    assert sorted(f.name for f in (tmp_path / "new").iterdir()) == ["costs-1.json", "plan-1.json"]
    assert LayerCosts.load(tmp_path / "new" / "costs-1.json") == _COSTS
    assert Plan.load(tmp_path / "new" / "plan-1.json") == _FAST


def test_a_logdir_that_cannot_be_written_does_not_stop_the_training(make, step, tmp_path):
    (tmp_path / "file").touch()
    replanner, _ = make(_decision(step, _FAST), logdir=tmp_path / "file")
    assert _epochs(replanner, 1)[0].replanned


def test_closing_stops_the_planner(make):
    replanner, scripted = make()
    replanner.close()
    assert scripted.stops == 1


@pytest.mark.parametrize("every_steps", [0, -1, 1.5])
def test_every_steps_must_be_positive(every_steps):
    with pytest.raises(
        ValueError, match=rf"`every_steps` \({every_steps}\) must be an integer above 0"
    ):
        replan.Replanner(None, every_steps=every_steps)


def test_another_strategy_is_refused():
    with pytest.raises(ValueError, match=r"`strategy` \(object\) must be a DynaCommStrategy"):
        replan.Replanner(object())


class _PlannerOnTheWay(_Planner):
    """Hands out its outcomes once it has been started; counts how often it is asked."""

    def __init__(self, outcomes):
        super().__init__(outcomes)
        self.asked = threading.Semaphore(0)

    def take(self, wait_s):
        self.asked.release()
        return self.outcomes.pop(0) if self.starts and self.outcomes else None


@pytest.fixture
def on_the_way(make, step):
    """A `Replanner` in an epoch, planning after every 5 steps; its planner, and their counter."""
    replanner, _ = make(every_steps=5)
    replanner._planner = scripted = _PlannerOnTheWay([_decision(step, _FAST)])
    replanner.begin_epoch()
    _let_it_ask(scripted)
    yield replanner, scripted, replanner._strategy.coordinator
    replanner.close()


def _let_it_ask(scripted):
    """Waits until all that is to be done by now has been done."""
    while scripted.asked.acquire(blocking=False):
        pass
    for _ in range(5):
        assert scripted.asked.acquire(timeout=60)


def test_nothing_is_planned_before_the_steps_are_done(on_the_way, step):
    _, scripted, coordinator = on_the_way
    coordinator.steps_finished = 4
    _let_it_ask(scripted)
    assert (scripted.starts, step.plans) == (0, [])


def test_a_plan_is_used_on_the_way_once_the_steps_are_done(on_the_way, step):
    replanner, scripted, coordinator = on_the_way
    coordinator.steps_finished = 5
    _let_it_ask(scripted)
    assert (scripted.starts, step.plans) == (1, [_FAST])
    report = replanner.end_epoch(1)
    assert (report.replanned, report.pull_segments_after) == (True, 1)


def test_the_report_is_of_the_latest_decision(on_the_way, step):
    replanner, scripted, coordinator = on_the_way
    slower = LayerCosts([0, 0], [0.1, 0.1], [0.1, 0.1], [0, 0], overhead_s=0.4)
    latest = _decision(step, current=_FAST, costs=slower)
    scripted.outcomes.append(latest)
    coordinator.steps_finished = 5
    _let_it_ask(scripted)
    assert replanner.end_epoch(1).predicted_step_time_s == latest.predicted_before_s()


def test_nothing_is_left_running_when_closed(on_the_way):
    replanner, scripted, _ = on_the_way
    watch = replanner._watch
    replanner.close()
    assert not watch.is_alive()
    assert scripted.stops == 1
