import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_dynacomm.keras3 import data


def _numbers(count: int = 10) -> tf.data.Dataset:
    return tf.data.Dataset.range(count).batch(4)


class _Sequence(keras.utils.PyDataset):
    """Batches made by Python; how many there are is known, or said not to be."""

    def __init__(self, *, ends: bool = True):
        super().__init__()
        self._ends = ends

    @property
    def num_batches(self):
        return 3 if self._ends else None

    def __getitem__(self, index):
        return (np.full([4, 1], index, np.float32),)


def _on_chief(x, steps=None, **options) -> data.Adapter:
    return data.on_chief(x, steps=steps, steps_name="steps", **options)


def _taken(adapter: data.Adapter) -> list:
    """All batches of one pass."""
    stream, batches = iter(adapter.get_tf_dataset()), []
    while True:
        try:
            batches.append(stream.take())
        except StopIteration:
            return batches


def test_the_chief_hands_out_each_batch_once_in_order_at_each_pass():
    adapter = _on_chief(_numbers())
    assert adapter.num_batches == 3
    for _ in range(2):
        assert [b.numpy().tolist() for b in _taken(adapter)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_the_trainer_builds_from_takes_no_batch_away():
    stream = iter(_on_chief(_numbers()).get_tf_dataset())
    assert next(stream).shape.as_list() == [None]
    assert stream.take().numpy()[0] == 0


def test_arrays_are_batched_and_keep_their_order():
    batches = _taken(_on_chief(np.arange(5.0), y=np.arange(5), batch_size=2))
    assert [len(x) for x, _ in batches] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), np.arange(5))


def test_a_function_is_called_for_a_single_reader():
    def dataset_fn(context):
        assert (context.num_input_pipelines, context.input_pipeline_id) == (1, 0)
        return _numbers()

    assert len(_taken(_on_chief(dataset_fn))) == 3


@pytest.mark.parametrize(
    "endless",
    [_numbers().repeat(), lambda context: _numbers().repeat(), _Sequence(ends=False)],
    ids=["dataset", "function", "PyDataset"],
)
def test_data_without_end_needs_a_number_of_steps(strategy, endless):
    with pytest.raises(ValueError, match=r"`steps` \(None\) must be given: the data has no end"):
        _on_chief(endless)
    with pytest.raises(ValueError, match=r"`steps_per_epoch` \(None\) must be given"):
        data.on_workers(strategy, endless, steps=None)
    _on_chief(endless, steps=5)


def _reader(strategy, x, steps=None) -> type:
    """Who reads data in training."""
    return type(data.on_workers(strategy, x, steps=steps).get_tf_dataset())


def test_workers_read_datasets_and_functions_themselves(strategy):
    assert _reader(strategy, _numbers()) is data.WorkerBatches
    assert _reader(strategy, _numbers().repeat(), steps=5) is data.WorkerBatches
    assert _reader(strategy, lambda context: _numbers(), steps=5) is data.WorkerBatches


def test_the_chief_runs_a_function_only_to_count_what_it_gives(strategy):
    """With a number of steps it is traced for the workers, and no more."""
    readers = []

    def dataset_fn(context):
        readers.append(context.num_input_pipelines)
        return _numbers()

    data.on_workers(strategy, dataset_fn, steps=5)
    assert readers == [2]
    data.on_workers(strategy, dataset_fn, steps=None)
    assert readers == [2, 1, 2]


def test_the_chief_reads_what_only_runs_here(strategy):
    python = _numbers().map(lambda n: tf.py_function(lambda n: n, [n], tf.int64))
    assert _reader(strategy, python, steps=5) is data.ChiefBatches
    assert _reader(strategy, np.arange(8.0)) is data.ChiefBatches
    assert _reader(strategy, _Sequence()) is data.ChiefBatches
    assert _reader(strategy, ((np.ones([4, 1]),) for _ in range(3))) is data.ChiefBatches


def test_the_chief_reads_what_has_an_unknown_end(strategy):
    """Nobody else can tell when the epoch is over."""
    even = _numbers().unbatch().filter(lambda n: n % 2 == 0).batch(2)
    for x in (even, lambda context: even):
        assert _reader(strategy, x) is data.ChiefBatches
        assert _reader(strategy, x, steps=2) is data.WorkerBatches


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (lambda: _numbers(), "must take one argument, a tf.distribute.InputContext"),
        (lambda context: None, "must return a tf.data.Dataset, not NoneType"),
        (lambda context: (_numbers(), 1), "must return a tf.data.Dataset, not tuple"),
        (_Sequence, r"`x` \(_Sequence\) must be data or a function, not a class"),
    ],
)
def test_functions_that_give_no_dataset_are_refused(strategy, x, message):
    for steps in (None, 5):
        with pytest.raises(TypeError, match=message):
            data.on_workers(strategy, x, steps=steps)
        with pytest.raises(TypeError, match=message):
            _on_chief(x, steps=steps)


def test_the_chief_reads_a_dataset_that_has_nothing_for_some_worker(strategy):
    assert _reader(strategy, _numbers(4)) is data.ChiefBatches


def test_a_pass_over_the_workers_data_ends_though_their_iterators_do_not(strategy):
    adapter = data.on_workers(strategy, _numbers(), steps=None)
    assert adapter.num_batches == 3
    assert len(_taken(adapter)) == len(_taken(adapter)) == 3


def test_keras_own_adapter_is_told_of_epochs():
    dataset = _Sequence()
    ended = []
    dataset.on_epoch_end = lambda: ended.append(True)
    adapter = _on_chief(dataset)
    adapter.on_epoch_begin()
    adapter.on_epoch_end()
    assert ended


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (lambda context: None, True),
        (_numbers(), False),
        (_Sequence(), False),
        (np.ones(3), False),
        (None, False),
    ],
)
def test_input_functions_are_told_from_data(x, expected):
    assert data.is_input_function(x) is expected
