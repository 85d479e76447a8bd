"""Tables of results, and the files that they are written to, with where and when they were made."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import sys
from collections.abc import Sequence

import numpy as np

import tf_dynacomm

FOLDER = pathlib.Path(__file__).parent

Cell = str | float | None


@dataclasses.dataclass(frozen=True)
class Table:
    """Results.

    Attributes:
      title: What they are, with their unit.
      header: Names of the columns.
      rows: A cell for each column, `None` where there is no result.
      note: What is to be known about them, if anything.
      form: How numbers are written.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    form: str = ".2f"

    def markdown(self) -> str:
        """The table in Markdown, its columns aligned for reading as plain text."""
        cells = [self.header, *(tuple(map(self._text, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numeric = [not isinstance(cell, str) for cell in self.rows[0]]
        ruler = tuple(
            "-" * (width - 1) + ":" if right else "-" * width
            for width, right in zip(widths, numeric, strict=True)
        )
        lines = [_line(row, widths, numeric) for row in (cells[0], ruler, *cells[1:])]
        return "\n".join([f"### {self.title}", "", *lines, *(["", self.note] if self.note else [])])

    def _text(self, cell: Cell) -> str:
        if cell is None:
            return ""
        return cell if isinstance(cell, str) else format(cell, self.form)


def _line(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(row, widths, numeric, strict=True)
    )
    return f"| {' | '.join(cells)} |"


def write(name: str, title: str, introduction: str, tables: Sequence[Table]) -> None:
    """Writes `<NAME>.md` and `results/<name>.json`, and prints the former.

    Args:
      name: Name of the benchmark.
      title: The first line.
      introduction: What was done, in Markdown.
      tables: The results.
    """
    origin = _origin()
    made = "; ".join(f"{key} {value}" for key, value in origin.items())
    head = f"# {title}\n\nWritten by `{_command()}`: {made}.\n\n{introduction}"
    text = "\n\n".join([head, *(table.markdown() for table in tables)]) + "\n"
    (FOLDER / f"{name.upper()}.md").write_text(text, encoding="utf-8")
    content = {"origin": origin, "tables": [dataclasses.asdict(table) for table in tables]}
    picture_path(name).parent.mkdir(exist_ok=True)
    picture_path(name).with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    print(text)


def picture_path(name: str) -> pathlib.Path:
    """Where a benchmark's picture belongs."""
    return FOLDER / "results" / f"{name}.png"


def _command() -> str:
    return f"python -m benchmarks.{pathlib.Path(sys.argv[0]).stem}"


def _origin() -> dict[str, str]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "tf_dynacomm": tf_dynacomm.__version__,
    }


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
