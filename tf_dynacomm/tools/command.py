"""How a command line tool starts, and how it ends when something is wrong."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging


class UserError(Exception):
    """Something that the user can put right, told in one line."""


@contextlib.contextmanager
def user_errors(source: str, remedy: str = "") -> Iterator[None]:
    """Blames `ValueError` and `OSError` in the block on `source`, a flag or variable of the user's.

    Raises:
      UserError: In their place, with `source`, their message and the remedy.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        raise UserError(f"{source}: {error}{remedy and f': {remedy}.'}") from error


def make_folder(flag: str, path: str | os.PathLike | None) -> None:
    """Makes the folder that a flag names, if it names one, and checks that it can be written.

    Raises:
      UserError: It cannot be.
    """
    if path is None:
        return
    with user_errors(flag, "name a folder that you may write to"):
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


def run(main: Callable[[Sequence[str]], None], operand: str | None = None) -> None:
    """Parses the flags and runs `main`, then ends the process.

    Args:
      main: Called with the command's name and its operand, if it takes one.
      operand: What the one argument that is no flag stands for; `None` if there is none.

    The exit code is 0 at a normal end; 1 with one line on standard error for a wrong flag or a
    `UserError`; 130 after Ctrl-C and 143 after SIGTERM, on both of which `with` blocks are left in
    order.
    """
    ending = _Ending()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, ending)
    try:
        app.run(main, flags_parser=functools.partial(_parse_flags, operand))
    except Exception as error:
        # Native code that the signal fell into turns the exit into an error of its own.
        if ending.exit_code is not None:
            sys.exit(ending.exit_code)
        if isinstance(error, UserError):
            sys.exit(f"{_name()}: {error}")
        raise


class _Ending:
    """Ends the process on a signal, and remembers that it did.

    Attributes:
      exit_code: What the process is to end with; `None` until a signal comes.
    """

    def __init__(self):
        self.exit_code: int | None = None

    def __call__(self, signal_number: int, frame: object) -> None:
        del frame
        self.exit_code = 128 + signal_number
        logging.set_verbosity(logging.FATAL)  # That calls fail while all is taken down is no news.
        sys.exit(self.exit_code)


def _name() -> str:
    return pathlib.Path(sys.argv[0]).name


def _parse_flags(operand: str | None, argv: Sequence[str]) -> list[str]:
    try:
        remaining = flags.FLAGS(argv)
    except flags.Error as error:
        raise UserError(" ".join(f"{error}".split())) from error
    if flags.FLAGS["verbosity"].using_default_value:  # Or absl makes it INFO.
        logging.set_verbosity(logging.WARNING)
    expected = 1 if operand is None else 2
    if len(remaining) > expected:
        raise UserError(f"unknown argument {remaining[expected]}: flags begin with --")
    if len(remaining) < expected:
        raise UserError(f"{operand} is missing")
    return remaining
