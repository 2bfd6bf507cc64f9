"""Whether an agent is alive, and how far its node's clock is off, without trusting that clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.model.agent_access import Request

SILENT_SECONDS: Final = 30.0
CLOCKS_AGREE: Final = 10.0  # seconds; a Lease change is observed up to this much later than it was written


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent as observed by this operator, with the operator's own monotonic clock (as in client-go's leader election).

    An operator that has just started has not observed a change yet: then the agent is neither alive nor silent.

    Attributes:
        age: seconds since this operator observed a change of the agent's Lease; None if it has not yet.
        unchanged: seconds over which consecutive reads found the Lease unchanged, without a gap in reading.
        ahead: seconds by which the clock of the agent's node is ahead of the operator's; None if not measured yet.
        request: key for which the agent requests certificates; None if it requests none (agents of earlier versions).
        reads_parts: whether it reads its certificates from the ConfigMap of its part; agents of earlier versions read the one of all nodes.
    """

    age: float | None = None
    unchanged: float = 0.0
    ahead: float | None = None
    request: Request | None = None
    reads_parts: bool = False

    @property
    def alive(self) -> bool:
        """Whether the agent's report is current."""
        return self.age is not None and self.age <= SILENT_SECONDS

    @property
    def silent(self) -> bool:
        """Whether it certainly does not renew its Lease; not being alive does not prove that: "unknown is not absent" (`docs/safety.md`, rule 8)."""
        return not self.alive and self.unchanged > SILENT_SECONDS

    @property
    def offset(self) -> float:
        """Seconds to subtract from a timestamp of this node's clock; 0 if the clocks agree well enough."""
        return self.ahead if self.ahead is not None and abs(self.ahead) > CLOCKS_AGREE else 0.0


NO_AGENT: Final = Agent(unchanged=float("inf"))


def clocks_off(agents: Mapping[str, Agent]) -> dict[str, float]:
    """Nodes whose clock differs from the operator's, with the seconds by which it is ahead."""
    return {node: agent.offset for node, agent in sorted(agents.items()) if agent.offset}


def operator_off(agents: Mapping[str, Agent]) -> float | None:
    """Seconds by which the operator's own clock is ahead, if all nodes (at least two) agree on it; otherwise None."""
    measured = [agent.ahead for agent in agents.values() if agent.ahead is not None]
    if len(measured) <= 1 or not all(abs(ahead) > CLOCKS_AGREE for ahead in measured):
        return None
    if max(measured) - min(measured) > CLOCKS_AGREE:
        return None
    return -sum(measured) / len(measured)
