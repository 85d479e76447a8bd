"""Tables of plain text, as the tools print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, gap: int = 2, left: int = 1
) -> str:
    """Lays out a table: its first columns to the left, the others, which are numbers, to the right.

    >>> print(table(("layer", "ms"), [("conv", 1.5), ("dense", 12)]))
    layer   ms
    conv   1.5
    dense   12

    Args:
      header: The columns' names.
      rows: As many cells each, of which `str` is shown.
      gap: Spaces between columns.
      left: How many columns are to the left.
    """
    cells = [tuple(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        names = [cell.ljust(width) for cell, width in zip(row[:left], widths, strict=False)]
        numbers = [c.rjust(w) for c, w in zip(row[left:], widths[left:], strict=True)]
        lines.append((" " * gap).join([*names, *numbers]).rstrip())
    return "\n".join(lines)
