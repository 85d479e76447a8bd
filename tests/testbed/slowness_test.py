import math
import pathlib

import pytest

from tf_dynacomm.testbed import slowness


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan])
def test_factors_must_be_positive(factor):
    with pytest.raises(ValueError, match=r"`factor` .* must be positive and finite"):
        slowness.Slowness([factor])


def test_factors_are_kept_until_the_end():
    with slowness.Slowness([1.0, 2.0]) as factors:
        folder = pathlib.Path(factors._folder.name)
        factors.set(1, 3.0)
        assert {file.name: file.read_text() for file in folder.iterdir()} == {
            "0": "1.0",
            "1": "3.0",
        }

    assert not folder.exists()
