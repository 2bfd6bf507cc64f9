"""What the operator sees of the agents: the Leases by which they say that they live, and the Secret that they were given.

Both stand in the agents' own namespace. Of its Secrets the operator reads one by name for each cluster, never the list.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spindle.cluster import names
from spindle.disks.agents import Agent
from spindle_operator import metrics
from spindle_operator.kinds import LEASE, SECRET
from spindle_operator.kube import ApiError, Json, Kube

log = logging.getLogger(__name__)

EVERY: Final = 5.0  # seconds between looks at the Leases
_BREAK: Final = (
    3 * EVERY
)  # seconds without a look, after which what was seen to stand still has to be seen anew
_MEASURED: Final = 6  # the last renewals of which the clock's difference is taken: a minute
_LEASES: Final = "leases"
_SECRET: Final = "agentsecrets"  # noqa: S105 - a key of Snapshot.unknown


@dataclass
class _Known:
    """One Lease: times in seconds of the monotonic clock.

    Attributes:
        record: what changes with each renewal.
        still: since when looks have found it as it is.
        changed: when it was seen to change; None if it was not.
        ahead: by how much the clock that wrote it was ahead, at the last renewals.
    """

    record: tuple[Any, ...]
    still: float
    changed: float | None = None
    ahead: deque[float] = field(default_factory=lambda: deque(maxlen=_MEASURED))

    def offset(self) -> float | None:
        """A Lease is seen a while after it was written, so the largest difference is the truest."""
        return max(self.ahead, default=None)


class Watch:
    """Looks at the agents' Leases every few seconds; an agent's age is that of the last change that was seen here, by no other clock."""

    def __init__(self, kube: Kube, namespace: str, changed: Callable[[], None] = lambda: None) -> None:
        """One for a whole process.

        Args:
            kube: the API server.
            namespace: of the agents.
            changed: called when an agent was heard that was not, or is no longer.
        """
        self.namespace = namespace
        self._kube = kube
        self._changed = changed
        self._known: dict[str, _Known] = {}
        self._looked: float | None = None
        self._problem = ""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.look()
            except Exception as error:  # an error of ours must not end it: the next look may go well
                log.exception("the agents' Leases could not be looked at")
                self._problem = f"{type(error).__name__}: {error}"
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look once; what goes wrong is told by `problem`."""
        try:
            found = await self._kube.items(LEASE, self.namespace)
        except ApiError as error:
            if not self._problem:
                log.warning("the agents' Leases cannot be read in %s: %s", self.namespace, error)
            self._problem = str(error)
            return
        before = self._states()
        self._take(found, time.monotonic(), time.time())
        self._problem = ""
        if self._states() != before:
            self._changed()

    @property
    def begun(self) -> bool:
        """Whether there was a look, with success or without."""
        return self._looked is not None or bool(self._problem)

    @property
    def problem(self) -> str | None:
        """Why it is not known which agents there are; None if the last look that went well was lately."""
        if self._looked is not None and time.monotonic() - self._looked <= _BREAK:
            return None
        return self._problem or "nobody has looked lately"

    def agents(self) -> dict[str, Agent]:
        """Node → what is known of its agent at this moment."""
        now = time.monotonic()
        return {node: self._agent(known, now) for node, known in self._known.items()}

    def _agent(self, known: _Known, now: float) -> Agent:
        return Agent(
            age=None if known.changed is None else now - known.changed,
            unchanged=(self._looked or 0.0) - known.still,
            ahead=known.offset(),
        )

    def _states(self) -> dict[str, tuple[bool, bool]]:
        return {node: (agent.alive, agent.silent) for node, agent in self.agents().items()}

    def _take(self, found: Iterable[Json], now: float, wall: float) -> None:
        """What a look found.

        Args:
            found: the Leases.
            now: seconds of the monotonic clock.
            wall: seconds since the epoch.
        """
        gap = self._looked is None or now - self._looked > _BREAK
        self._looked = now
        there = {node: (record, at) for lease in found for node, record, at in _renewal(lease)}
        for node, (record, at) in there.items():
            known = self._known.get(node)
            if known is None:
                self._known[node] = _Known(record, now)
            elif known.record != record:
                known.record, known.still, known.changed = record, now, now
                if not gap:
                    known.ahead.append(at - wall)
            elif gap:
                known.still = now
        for node, known in [*self._known.items()]:
            # One that is gone for a moment (made anew) was heard all the same.
            if node not in there and not self._agent(known, now).alive:
                del self._known[node]
        metrics.clocks(
            {node: ahead for node, known in self._known.items() if (ahead := known.offset()) is not None}
        )


@dataclass(frozen=True)
class Agents:
    """One look at the agents' namespace.

    Attributes:
        namespace: empty if there are no agents.
        secret: the one of this cluster.
        problems: what could not be read, by its key in ``Snapshot.unknown`` → why.
    """

    namespace: str = ""
    secret: Json | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


async def look(kube: Kube, watch: Watch | None, namespace: str, cluster: str) -> Agents:
    """Look at the agents on behalf of one KafkaCluster; where there are none, nothing is asked."""
    if watch is None:
        return Agents()
    problems: dict[str, str] = {}
    own: Json | None = None
    if not watch.begun:
        await watch.look()
    try:
        own = await kube.find(SECRET, watch.namespace, names.agent_secret(namespace, cluster))
    except ApiError as error:
        problems[_SECRET] = str(error)
        log.warning(
            "%s cannot be read in %s for %s/%s: %s", _SECRET, watch.namespace, namespace, cluster, error
        )
    if (why := watch.problem) is not None:
        problems[_LEASES] = why
    return Agents(watch.namespace, own, problems)


def _renewal(lease: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...], float]]:
    """The node of a Lease, what a renewal changes, and the time in it; none if it is no agent's, or its time is none."""
    prefix = names.agent_lease("")
    name = str(lease["metadata"]["name"])
    spec = lease.get("spec") or {}
    at = spec.get("renewTime")
    if not name.startswith(prefix) or not isinstance(at, str):
        return []
    try:
        return [
            (
                name.removeprefix(prefix),
                (spec.get("holderIdentity"), at),
                datetime.fromisoformat(at).timestamp(),
            )
        ]
    except ValueError:
        return []
