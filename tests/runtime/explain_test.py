import dataclasses

import pytest
import tensorflow as tf

from tf_dynacomm.plan import Plan
from tf_dynacomm.runtime import explain, rewrite

_TWO = Plan([(1, 1), (2, 2)], [(2, 2), (1, 1)])


def _entry(step, variable, plan=_TWO):
    return next(e for e in explain.entries(step.function, plan) if e.variable == variable)


def _note(step, variable):
    return _entry(step, variable).note


def test_a_grouped_variable_has_its_segments(momentum_step):
    entry = _entry(momentum_step, "dense_1/kernel")
    assert dataclasses.astuple(entry) == ("dense_1/kernel", "dense_1", 64, "ps:0", 1, 2, "")


def test_every_variable_has_an_entry(any_step):
    names = [e.variable for e in explain.entries(any_step.function, None)]
    assert sorted(names) == sorted(v.name for v in any_step.graph.variables.values())


@pytest.mark.parametrize("variable", ["slot_0", "rate"])
def test_what_the_worker_does_not_read_stays_on_the_ps(momentum_step, variable):
    assert _note(momentum_step, variable).startswith("stays on the PS")


def test_a_frozen_variable_is_not_updated(shared_step):
    entry = _entry(shared_step, "frozen/kernel", Plan([(1, 3)], [(1, 3)]))
    assert (entry.pull, entry.push, entry.note) == (1, None, "not updated")


def test_a_gradient_of_unknown_size_travels_as_in_stock(dynamic_step):
    assert _note(dynamic_step, "first/kernel").startswith("its gradient travels as in stock")


def test_what_is_cast_says_so(bfloat16_step):
    entry = _entry(bfloat16_step, "dense_1/kernel", Plan([(1, 3)], [(1, 3)]))
    assert (entry.size_bytes, entry.note) == (32, "sent as bfloat16")


def test_what_is_larger_than_a_pack_says_so(momentum_step, monkeypatch):
    monkeypatch.setattr(rewrite, "MAX_PACK_BYTES", 32)
    assert _note(momentum_step, "dense_1/kernel") == "larger than a pack, goes alone"


def _reason(program, variable, step):
    """Why a variable of a step, beside a dense layer, is in no segment."""
    kernel = program.variable("dense/kernel", tf.eye(4))
    traced = program.trace(lambda x: step(x @ kernel))
    return _note(traced, variable.name.partition(":")[0])


@pytest.fixture
def program(make_program):
    return make_program()


@pytest.fixture
def variable(program):
    return program.variable("own/kernel", tf.ones([4, 4]))


def test_rows_of_a_table_are_counted(program, variable):
    reason = _reason(program, variable, lambda x: tf.gather(variable, tf.cast(x[:, 0], tf.int32)))
    assert reason == "rows of 16 bytes are gathered on the PS and travel as in stock"


def test_rows_of_a_large_table_that_the_program_reads_whole(make_program):
    program = make_program()
    variable = program.variable("embedding/table", tf.ones([100_000, 4]))

    def gather(x):
        return tf.gather(tf.convert_to_tensor(variable), tf.cast(x[:, 0], tf.int32))

    reason = _reason(program, variable, gather)
    assert reason == "rows of 16 bytes are gathered on the PS and travel as in stock"


def test_a_condition_keeps_its_variables(program, variable):
    reason = _reason(
        program, variable, lambda x: tf.cond(x[0, 0] > 0, lambda: x @ variable, lambda: x)
    )
    assert reason == "read within a condition or a loop, as in stock"


def test_a_read_after_a_write_is_of_the_new_value(program, variable):
    def step(x):
        with program.device(variable):
            variable.assign_add(tf.ones([4, 4]))
        return x @ variable

    reason = _reason(program, variable, step)
    assert reason == "read after a write of the same step, as in stock"


def test_a_variable_outside_the_ps_lives_on_the_chief(make_program, monkeypatch):
    program = make_program()
    variable = program.variable("own/kernel", tf.ones([4, 4]))
    program.place(variable, "/job:chief/replica:0/task:0/device:CPU:0")
    reason = _reason(program, variable, lambda x: x @ variable)
    assert reason == "lives on the chief: make it inside `strategy.scope()`"


def test_a_text_has_no_known_size(program):
    label = program.variable("label", "a text", trainable=False)
    reason = _reason(program, label, lambda x: tf.strings.length(label))
    assert reason == "its size is not known before it is sent, as in stock"


def test_what_meets_no_data_is_in_no_layer(program):
    count = program.variable("iteration", 1.0, trainable=False)
    reason = _reason(program, count, lambda x: 0.1 / count)
    assert reason.startswith("belongs to no layer")


def test_the_table_lays_out_segments_and_tasks(branching_step):
    text = explain.explain(branching_step.function, Plan([(1, 1), (2, 3)], [(1, 3)]))
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert [line.split() for line in blocks[0][:2]] == [
        ["variable", "layer", "bytes", "task", "pull", "push"],
        ["stem/kernel", "stem", "64", "ps:0", "1", "1"],
    ]
    assert [line.split() for line in blocks[1]] == [
        ["pull", "segment", "layers", "bytes", "ps:0", "ps:1"],
        ["1", "1-1", "80", "80", "0"],
        ["2", "2-3", "240", "80", "160"],
        ["all", "1-3", "320", "160", "160"],
    ]
    assert blocks[2][1].split() == ["1", "1-3", "320", "160", "160"]


def test_variables_of_the_ps_are_counted_only(momentum_step):
    text = explain.explain(momentum_step.function, _TWO)
    assert "6 variables more stay on the PS" in text
    assert "slot_0" not in text


def test_a_step_as_traced_says_so(momentum_step):
    text = explain.explain(momentum_step.function, None)
    assert "The step runs as traced" in text
    assert "segment" not in text


def test_clipping_by_the_global_norm_is_told(program):
    kernels = [program.variable(f"dense_{i}/kernel", tf.eye(4)) for i in (1, 2)]

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ kernels[0]) @ kernels[1]) ** 2)
        clipped, _ = tf.clip_by_global_norm(tape.gradient(loss, kernels), 1.0)
        program.descend(kernels, clipped)

    text = explain.explain(program.trace(step).function, _TWO)
    assert "one push segment is best" in text
