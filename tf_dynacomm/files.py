"""JSON files of this package: written atomically, and recognised when they are read."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

_MAX_BYTES = 1 << 26  # A record of the largest steps takes a few megabytes.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def write(path: str | os.PathLike, kind: str, version: int, content: Mapping[str, Any]) -> None:
    """Writes a file as `write_text` does.

    Args:
      path: Where to.
      kind: What it holds, such as `"costs"`.
      version: Version of the form in which it holds it.
      content: The rest of the file.

    Raises:
      OSError: If it cannot be written.
    """
    header = {"format": f"tf_dynacomm.{kind}", "version": version}
    text = json.dumps({**header, **content}, indent=1, allow_nan=False)
    write_text(path, f"{text}\n")


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a file of text as `whole` does.

    Raises:
      OSError: If it cannot be written.
    """
    with whole(path) as part:
        part.write_bytes(text.encode())


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Has a file written whole or not at all; what is none, as `/dev/stdout`, is written to itself.

    A link is replaced and not followed, so that nothing is written outside of its folder.

        with files.whole("plan.svg") as part:
            picture.savefig(part, format="svg")

    Args:
      path: The file.

    Yields:
      What is to be written; it takes the file's place if the block does not raise.

    Raises:
      OSError: If it cannot be written.
    """
    path = pathlib.Path(path)
    if _is_device(path):
        yield path
        return
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield part
        part.replace(path)
    except OSError as e:
        e.filename = os.fspath(path) if e.filename in (part, os.fspath(part)) else e.filename
        raise
    finally:
        part.unlink(missing_ok=True)


def _is_device(path: pathlib.Path) -> bool:
    """Whether there is something that must not be replaced: a device, a pipe, a folder."""
    link_to_file = path.is_symlink() and path.is_relative_to("/dev")  # Such as /dev/stdout.
    return path.exists() and (link_to_file or not path.is_file())


def read(path: str | os.PathLike, kind: str, version: int) -> dict[str, Any]:
    """Reads a file that `write` wrote.

    Raises:
      OSError: If it cannot be read.
      ValueError: If it is not JSON, of another kind, of another version, or too long.
    """
    with open(path, "rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path}: longer than the {_MAX_BYTES} bytes that a file of {kind} takes.")
    with malformed(f"{path}: not JSON, or cut short"):
        content = json.loads(data)
        json.dumps(content, ensure_ascii=False).encode()  # Half characters could not be printed.
    if not isinstance(content, dict) or content.get("format") != f"tf_dynacomm.{kind}":
        raise ValueError(f"{path}: not a file of {kind} that tf_dynacomm wrote.")
    if content.get("version") != version:
        raise ValueError(
            f"{path}: version {content.get('version')!r} of {kind}; this tf_dynacomm reads "
            f"version {version}."
        )
    return content


@contextlib.contextmanager
def malformed(what: str) -> Iterator[None]:
    """Turns whatever is raised by reading content that is not of the right form into `ValueError`.

    Args:
      what: The beginning of its message.

    Raises:
      ValueError: If the block raises what a wrong type, a missing key or such a thing leads to.
    """
    try:
        yield
    except _MALFORMED as e:
        raise ValueError(f"{what}: {e if isinstance(e, KeyError | ValueError) else repr(e)}") from e
