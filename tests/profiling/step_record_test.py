import pytest

from tf_dynacomm.plan import Plan
from tf_dynacomm.profiling import step_record
from tf_dynacomm.runtime import layers

_PLAN = Plan([(1, 1), (2, 3)], [(2, 3), (1, 1)], credit=2, scheduler="dynacomm")


@pytest.fixture
def chain(make_chain):
    return make_chain([10, 20, 30])


def test_a_step_comes_back_as_it_was_saved(tmp_path, chain):
    step_record.save(tmp_path, chain.graph, {0: _PLAN, 2: None})
    found = step_record.load(tmp_path)
    assert found.layers == chain.layers
    assert list(found.graph.nodes.values()) == list(chain.graph.nodes.values())
    assert (found.graph.results, found.graph.variables) == (
        chain.graph.results,
        chain.graph.variables,
    )
    assert found.plans == {0: _PLAN, 2: None}
    assert found.plans[0].scheduler == "dynacomm"


def test_a_traced_step_comes_back_as_it_was_saved(tmp_path, make_program):
    program = make_program()
    weight = program.variable("dense/w", [[1.0] * 2] * 4)

    def step(x):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weight) ** 2)
        program.descend([weight], tape.gradient(loss, [weight]))
        return loss

    traced = program.trace(step)
    step_record.save(tmp_path, traced.graph, {0: None})
    found = step_record.load(tmp_path)
    assert found.layers == traced.layers
    assert found.graph.live == traced.graph.live
    assert list(found.graph.nodes.values()) == list(traced.graph.nodes.values())


def test_a_folder_without_a_record_has_none(tmp_path):
    assert step_record.load(tmp_path) is None


@pytest.mark.parametrize("old", ['"plans"', '"nodes"', '"devices"'])
def test_a_record_that_is_not_whole_is_named(tmp_path, chain, old):
    step_record.save(tmp_path, chain.graph, {0: _PLAN})
    file = tmp_path / step_record.NAME
    file.write_text(file.read_text().replace(old, '"other'))
    with pytest.raises(ValueError, match=r"dynacomm\.json: no(t| valid)"):
        step_record.load(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, chain, caplog):
    step_record.save(tmp_path / "gone", chain.graph, {0: _PLAN})
    assert not (tmp_path / "gone").exists()


def test_a_step_whose_weights_travel_as_bfloat16_comes_back_as_it_was_saved(tmp_path, make_program):
    import tensorflow as tf

    program = make_program()
    weight = program.variable("dense/w", [[1.0] * 2] * 4)

    def step(x):
        return tf.cast(x, tf.bfloat16) @ tf.cast(weight, tf.bfloat16)

    traced = program.trace(step)
    step_record.save(tmp_path, traced.graph, {0: None})
    found = step_record.load(tmp_path)
    assert found.layers == layers.layer_table(traced.graph)
    assert found.layers[0].pull_bytes == 4 * 2 * 2
