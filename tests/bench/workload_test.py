import pytest

from tf_dynacomm.bench.workload import Workload


def test_emulated_model_has_scale_and_times():
    workload = Workload.parse("emulated:vgg19:0.5:0.1:0.2")

    assert workload.emulated
    assert (workload.model, workload.scale) == ("vgg19", 0.5)
    assert (workload.forward_s, workload.backward_s) == (0.1, 0.2)


def test_real_model_has_a_batch_size():
    workload = Workload.parse("small_cnn", batch_size=4)

    assert not workload.emulated
    assert (workload.model, workload.batch_size) == ("small_cnn", 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lenet", "must be one of .*small_cnn"),
        ("emulated:small_cnn:1:1:1", "must be one of googlenet"),
        ("emulated:vgg19", "must be a name or have the form emulated:ARCHITECTURE"),
        ("emulated:vgg19:0:1:1", "scale .* must be positive"),
        ("emulated:vgg19:1:x:1", "must be finite and not negative"),
        ("emulated:vgg19:1:1:-1", "must be finite and not negative"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        Workload.parse(text)
