"""Instances for property tests: `st.from_type(LayerCosts)` draws them."""

import numpy as np
from hypothesis import strategies as st

from tf_dynacomm.costs import LayerCosts

_MAX_LAYERS = 12

# One for each byte, so that an instance is drawn at once: zeros, ties, sums that round, huge, tiny.
_SECONDS = np.concatenate(
    [
        np.zeros(32),
        np.arange(1, 65) % 8,
        np.arange(1, 65) / 10,
        np.random.default_rng(0).lognormal(sigma=2, size=64),
        [1e300, 1e-300, 5e-324, 1e16, 1e-16, 2.0**53, 1 + 2**-52, 1 - 2**-53] * 4,
    ]
)


@st.composite
def _costs(draw, max_layers=_MAX_LAYERS):
    count = draw(st.integers(1, max_layers))
    drawn = draw(st.binary(min_size=4 * count + 2, max_size=4 * count + 2))
    seconds = _SECONDS[np.frombuffer(drawn, np.uint8)]
    return LayerCosts(*seconds[2:].reshape(4, count), overhead_s=seconds[:2])


st.register_type_strategy(LayerCosts, _costs())
