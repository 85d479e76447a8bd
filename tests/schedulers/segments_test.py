from tf_dynacomm.schedulers import segments


def test_ends_become_segments():
    assert segments.forward([2, 3, 8]) == ((1, 2), (3, 3), (4, 8))
    assert segments.backward([2, 3, 8]) == ((4, 8), (3, 3), (1, 2))


def test_sums_begin_with_nothing():
    assert segments.prefix_sums([1, 2, 3]) == [0, 1, 3, 6]
