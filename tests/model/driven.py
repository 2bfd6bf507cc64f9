"""What the random runs of a model cluster have in common: passes that may die, and the rules that hold after each step."""

from collections.abc import Callable
from functools import partial

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.model.checked import Checked
from tests.model.store import ConflictError


class Driven(RuleBasedStateMachine):
    """A cluster on which things happen at random."""

    world: Checked

    def one_pass(self, death: int | None = None) -> int:
        """A pass of the operator, which may die after so many actions; how many it did, or one where it was turned down."""
        try:
            return len(self.world.reconcile(stop_after=death).actions)
        except (ConflictError, RuntimeError):
            return 1  # a guard did not hold, or Kafka turned something down: the next pass looks again

    @rule(deaths=st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=8))
    def passes(self, deaths: list[int | None]) -> None:
        """Passes of the operator, some of which it does not live to finish."""
        for death in deaths:
            self.one_pass(death)
            self.world.breathe()

    @rule(deaths=st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=4))
    def hasty_passes(self, deaths: list[int | None]) -> None:
        """Several passes before anything else moves."""
        for death in deaths:
            self.one_pass(death)

    @invariant()
    def no_rule_is_broken(self) -> None:
        if hasattr(self, "world"):
            assert self.world.broken == []
            assert self.world.kafkas.losses == []
            self.holds_besides()

    def holds_besides(self) -> None:
        """What else must hold after each step."""

    def end_quiet(self, passes_without_an_action: int, most: int) -> None:
        """Go on until nothing is done any more."""
        quiet = passes = 0
        while quiet < passes_without_an_action:
            quiet = 0 if self.one_pass() else quiet + 1
            self.no_rule_is_broken()
            self.world.breathe()
            passes += 1
            assert passes < most, f"not quiet: {self.world.cluster['status']['waiting']}"


def bounds(runs: int, steps: int) -> settings:
    """How many clusters are tried, with how many steps each."""
    return settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
        ],
    )


def all_in(path: str) -> Callable[[int], str]:
    """Every broker's replica in this dir; a function that can be copied with its world."""
    return partial(_in, path)


def _in(path: str, _: int) -> str:
    return path
