import json

import pytest

from benchmarks import results


@pytest.fixture
def table():
    rows = (("one", 1.25, None), ("three", 33.5, 2.0))
    return results.Table("Numbers", ("name", "first", "second"), rows, "A note.", form=".1f")


def test_columns_are_aligned(table):
    assert table.markdown().splitlines() == [
        "### Numbers",
        "",
        "| name  | first | second |",
        "| ----- | ----: | -----: |",
        "| one   |   1.2 |        |",
        "| three |  33.5 |    2.0 |",
        "",
        "A note.",
    ]


def test_table_without_note_ends_with_its_rows():
    table = results.Table("T", ("a",), (("x",),))
    assert table.markdown().endswith("| x |")


def test_files_tell_where_they_come_from(monkeypatch, tmp_path, table, capsys):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["/anywhere/numbers.py"])
    results.write("numbers", "All numbers", "Made up.", [table])
    text = (tmp_path / "NUMBERS.md").read_text()
    assert text.startswith("# All numbers\n\nWritten by `python -m benchmarks.numbers`: date 20")
    assert table.markdown() in text
    assert capsys.readouterr().out == f"{text}\n"


def test_json_has_the_numbers_in_full(monkeypatch, tmp_path, table, capsys):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.write("numbers", "All numbers", "Made up.", [table])
    content = json.loads((tmp_path / "results" / "numbers.json").read_text())
    assert content["tables"][0]["rows"] == [["one", 1.25, None], ["three", 33.5, 2.0]]
    assert {"date", "machine", "Python"} <= content["origin"].keys()
