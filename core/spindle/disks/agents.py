"""What is known of an agent's life and of its node's clock, without believing that clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.cluster.agent_access import Request

SILENT_SECONDS: Final = 30.0
CLOCKS_AGREE: Final = 10.0  # seconds; a Lease is seen up to that much later than it was written


@dataclass(frozen=True, kw_only=True)
class Agent:
    """One agent as this operator sees it, by the operator's own monotonic clock (as in client-go's leader election).

    An operator that has only just begun to look knows of no change yet: then the agent is neither alive nor silent.

    Attributes:
        age: seconds since this operator saw the agent's Lease change; None if it has not yet.
        unchanged: seconds over which looks at the Lease found it as it was, without a break in looking.
        ahead: seconds by which the clock of the agent's node is ahead of the operator's; None if that was not measured yet.
        request: for which key it wants certificates; None if it asks for none, as agents of earlier versions.
    """

    age: float | None = None
    unchanged: float = 0.0
    ahead: float | None = None
    request: Request | None = None

    @property
    def alive(self) -> bool:
        """Whether what the agent says is of the present."""
        return self.age is not None and self.age <= SILENT_SECONDS

    @property
    def silent(self) -> bool:
        """Whether it surely does not renew its Lease; not being alive is no proof of that (rule 8)."""
        return not self.alive and self.unchanged > SILENT_SECONDS

    @property
    def offset(self) -> float:
        """Seconds to take off a time that this node's clock gave; 0 if it agrees well enough."""
        return self.ahead if self.ahead is not None and abs(self.ahead) > CLOCKS_AGREE else 0.0


NO_AGENT: Final = Agent(unchanged=float("inf"))


def clocks_off(agents: Mapping[str, Agent]) -> dict[str, float]:
    """Nodes whose clock differs from the operator's, and by how many seconds it is ahead."""
    return {node: agent.offset for node, agent in sorted(agents.items()) if agent.offset}


def operator_off(agents: Mapping[str, Agent]) -> float | None:
    """Seconds by which the operator's own clock is ahead, where all others (two at least) agree that it is; else None."""
    measured = [agent.ahead for agent in agents.values() if agent.ahead is not None]
    if len(measured) <= 1 or not all(abs(ahead) > CLOCKS_AGREE for ahead in measured):
        return None
    if max(measured) - min(measured) > CLOCKS_AGREE:
        return None
    return -sum(measured) / len(measured)
