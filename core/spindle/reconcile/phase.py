"""What a phase of a pass is, and how a list of phases is run."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


class PhaseOrderError(Exception):
    """A phase asks for a result that no earlier phase has provided, or provides one a second time."""


@dataclass(frozen=True)
class Phase:
    """One step of a pass: a function of the cluster's state and of the results of earlier phases.

    Attributes:
        run: the names of its parameters say what it reads: ``state``, ``builder``, or the result of an earlier phase.
        provides: name of its result; a tuple of names if it returns a tuple.
        required: the pass ends after this phase if its result is None.
        closes: name of a collection that this phase takes as complete: no later phase may add to it.
    """

    run: Callable[..., Any]
    provides: str | tuple[str, ...] = ()
    required: bool = False
    closes: str = ""
    reads: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Read the names of the parameters once."""
        object.__setattr__(self, "reads", tuple(inspect.signature(self.run).parameters))

    @property
    def results(self) -> tuple[str, ...]:
        """The names of its results."""
        return (self.provides,) if isinstance(self.provides, str) else self.provides


class PassResults:
    """The results of the phases by name, each set once.

    Attributes:
        complete: whether all phases ran; False if one without its required result ended the pass.
    """

    def __init__(self, **given: Any) -> None:
        """``given``: what is known before the first phase."""
        self._known = given
        self.complete = False

    def get(self, name: str) -> Any:
        """A result; None if the pass ended before it."""
        return self._known.get(name)

    def run(self, phases: Sequence[Phase]) -> None:
        """Run phases in order.

        Raises:
            PhaseOrderError: a phase reads what is not known yet, or provides what is known already.
        """
        self.complete = False
        for phase in phases:
            result = phase.run(**{name: self._read(phase, name) for name in phase.reads})
            if isinstance(phase.provides, str):
                self._set(phase.provides, result)
            else:
                for name, part in zip(phase.provides, result if phase.provides else (), strict=True):
                    self._set(name, part)
            if phase.required and result is None:
                return
        self.complete = True

    def _read(self, phase: Phase, name: str) -> Any:
        try:
            return self._known[name]
        except KeyError:
            raise PhaseOrderError(f"{phase.run.__name__} reads {name}, which is not known yet") from None

    def _set(self, name: str, result: Any) -> None:
        if name in self._known:
            raise PhaseOrderError(f"{name} is set a second time")
        self._known[name] = result
