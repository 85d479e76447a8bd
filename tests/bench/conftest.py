"""Rows for the tests of tables and charts."""

import dataclasses

import pytest

from tf_dynacomm.bench import rows


def _row(contender: str, step_s: float, **changes) -> rows.Row:
    row = rows.Row(
        model="small_cnn",
        rate="250mbit",
        latency_s=0.01,
        workers=1,
        contender=contender,
        median_step_s=step_s,
        ratio_to_stock=step_s / 2,
        ratio_low=step_s / 2,
        ratio_high=step_s / 2,
        bound_s=1.0,
        duplex_limit_s=0.5,
        predicted_s=None if contender == "stock" else step_s,
        pulls=0 if contender == "stock" else 3,
        pushes=0 if contender == "stock" else 2,
        computation_s=0.25,
        overlap_s=0.25,
        communication_s=step_s - 0.5,
        links="relay",
    )
    return dataclasses.replace(row, **changes)


@pytest.fixture
def some_rows() -> list[rows.Row]:
    return [_row("stock", 2.0), _row("sequential", 4.0), _row("dynacomm", 1.5)]
