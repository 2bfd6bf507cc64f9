"""What has become of each move: one letter a move, in order, as ``status.outcomes`` has it.

Two thousand letters stand in the status; so a move that is over stays so, whatever is done to its replica later.
"""

from typing import Final

WAITING: Final = "."
MOVING: Final = ">"
DONE: Final = "+"
DROPPED: Final = "-"
_ALL: Final = frozenset((WAITING, MOVING, DONE, DROPPED))
OVER: Final = frozenset((DONE, DROPPED))


def read_move_states(text: str | None, moves: int) -> tuple[str, ...]:
    """Marks on record; what is missing or not understood is waiting, so it is looked at again.

    Args:
        text: ``status.outcomes``.
        moves: how many there are.
    """
    found = [mark if mark in _ALL else WAITING for mark in (text or "")[:moves]]
    return (*found, *(WAITING,) * (moves - len(found)))


def given_up(marks: tuple[str, ...]) -> tuple[str, ...]:
    """Marks of a proposal that is over: what was in motion is withdrawn, so it was not done."""
    return tuple(WAITING if mark == MOVING else mark for mark in marks)


def write_move_states(marks: tuple[str, ...] | list[str]) -> str:
    """For ``status.outcomes``."""
    return "".join(marks)
