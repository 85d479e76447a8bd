import pytest

from tf_dynacomm.tools import table


def test_names_are_to_the_left_and_numbers_to_the_right():
    assert table.table(("a", "b"), [("long", 1), ("c", 22)]) == "a      b\nlong   1\nc     22"


def test_columns_may_all_be_to_the_right_and_farther_apart():
    assert table.table(("a", "b"), [("c", 22)], gap=3, left=0) == "a    b\nc   22"


def test_a_table_may_have_no_rows():
    assert table.table(("a", "b"), []) == "a  b"


def test_a_row_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        table.table(("a", "b"), [("c",)])
