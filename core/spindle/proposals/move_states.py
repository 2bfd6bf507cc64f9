"""The state of each move: one character per move, in order, as in ``status.outcomes``.

The status holds two thousand characters; a finished move stays finished, whatever happens to its replica later.
"""

from typing import Final

WAITING: Final = "."
MOVING: Final = ">"
DONE: Final = "+"
DROPPED: Final = "-"
_ALL: Final = frozenset((WAITING, MOVING, DONE, DROPPED))
OVER: Final = frozenset((DONE, DROPPED))


def read_move_states(text: str | None, moves: int) -> tuple[str, ...]:
    """Read the recorded states; missing or unknown ones count as waiting, so that they are checked again.

    Args:
        text: ``status.outcomes``.
        moves: number of moves.
    """
    found = [mark if mark in _ALL else WAITING for mark in (text or "")[:moves]]
    return (*found, *(WAITING,) * (moves - len(found)))


def given_up(marks: tuple[str, ...]) -> tuple[str, ...]:
    """States of a finished proposal: running moves are cancelled, so they were not done."""
    return tuple(WAITING if mark == MOVING else mark for mark in marks)


def write_move_states(marks: tuple[str, ...] | list[str]) -> str:
    """Encode the states for ``status.outcomes``."""
    return "".join(marks)
