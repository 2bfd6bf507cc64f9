"""The command ``spindle``; also ``kubectl spindle`` when it is linked as ``kubectl-spindle``."""

import errno
import os
import shlex
import sys
from contextlib import suppress
from typing import Final, NoReturn

import typer

from spindle_cli.command_table import SpindleGroup
from spindle_cli.options import INTERRUPTED, context_first, shared

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_FILES: Final = ":4"  # kubectl's word for: complete no file names

app = typer.Typer(
    cls=SpindleGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than all else that the help needs
)
app.callback()(shared)


def main() -> None:
    """Entry point; as a kubectl plugin it shows the name that the user typed."""
    called = os.path.basename(sys.argv[0])  # noqa: PTH119 - a name, not a path
    sys.argv[1:] = context_first(sys.argv[1:])
    try:
        app(prog_name="kubectl spindle" if called.startswith("kubectl-") else "spindle")
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Ctrl-C while a library was imported
            sys.exit(INTERRUPTED)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _not_written(error)
        raise
    finally:
        _flush()


def _flush() -> None:
    """Write what is left: at the interpreter's own end an error is a traceback, and the exit code says nothing of what is missing."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # a pager or head that was closed
        _forget_output()
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _not_written(error)


def _not_written(error: OSError) -> NoReturn:
    _forget_output()
    from spindle_cli.screen import say  # noqa: PLC0415 - not needed by --help

    say(f"spindle: the output cannot be written: {error.strerror}", err=True)
    sys.exit(1)


def _forget_output() -> None:
    """Have nothing left to write."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complete() -> None:
    """Entry point ``kubectl_complete-spindle``, which kubectl asks for the next words of ``kubectl spindle``."""
    words = sys.argv[1:]
    os.environ |= {
        "COMP_WORDS": shlex.join(["spindle", *words]),
        "COMP_CWORD": str(len(words)),
        "_SPINDLE_COMPLETE": "complete_bash",
    }
    sys.argv = ["spindle"]
    try:
        app(prog_name="spindle")
    finally:
        print(_NO_FILES)


if __name__ == "__main__":
    main()
