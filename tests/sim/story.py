"""The story of a run as text."""

from tests.sim.kernel import Line
from tests.sim.life import Outcome, describe

_QUIET = ("Normal", "DependenciesMissing", "QuorumPending")


def line(told: Line, *, long: bool = True) -> str:
    """One line: when, who, what, why."""
    why = f"  ({told.why})" if told.why else ""
    text = f"{told.at:9.2f}  {told.who:<16} {told.what}{why}"
    return text if long or len(text) <= 260 else text[:259] + "…"


def tell(outcome: Outcome, *, long: bool = True) -> str:
    """The whole story, ending with the violated rules."""
    lines = [f"life {outcome.seed}: {describe(outcome.plot.variety)}"]
    lines += [
        line(each, long=long) for each in outcome.story if not any(word in each.what for word in _QUIET)
    ]
    lines.append(
        f"{outcome.ended_at:.0f} s, {outcome.events} events, {outcome.passes} passes; "
        + ("nothing broke" if not outcome.broken else f"FAILED {len(outcome.broken)}:")
    )
    lines += [f"  {each}" for each in outcome.broken]
    return "\n".join(lines)


def mark(outcome: Outcome) -> str:
    """A complete story as one text, to compare two runs bit by bit."""
    return "\n".join(
        [
            *(f"{each.at!r} {each.who} {each.what} {each.why}" for each in outcome.story),
            *outcome.broken,
            str(outcome.events),
        ]
    )
