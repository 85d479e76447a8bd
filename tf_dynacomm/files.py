"""JSON files of this package: written atomically, and recognised when they are read."""

from __future__ import annotations

import json
import os
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any


def write(path: str | os.PathLike, kind: str, version: int, content: Mapping[str, Any]) -> None:
    """Writes a file whole or not at all.

    Args:
      path: Where to.
      kind: What it holds, such as `"costs"`.
      version: Version of the form in which it holds it.
      content: The rest of the file.

    Raises:
      OSError: If it cannot be written.
    """
    path = pathlib.Path(path)
    header = {"format": f"tf_dynacomm.{kind}", "version": version}
    text = json.dumps({**header, **content}, indent=1, allow_nan=False)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        part.write_text(f"{text}\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: str | os.PathLike, kind: str, version: int) -> dict[str, Any]:
    """Reads a file that `write` wrote.

    Raises:
      OSError: If it cannot be read.
      ValueError: If it is not JSON, of another kind, or of a newer version.
    """
    try:
        content = json.loads(pathlib.Path(path).read_bytes())
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path}: not JSON, or cut short ({e}).") from e
    if not isinstance(content, dict) or content.get("format") != f"tf_dynacomm.{kind}":
        raise ValueError(f"{path}: not a file of {kind} that tf_dynacomm wrote.")
    if content.get("version") != version:
        raise ValueError(
            f"{path}: version {content.get('version')!r} of {kind}; this tf_dynacomm reads "
            f"version {version}."
        )
    return content
