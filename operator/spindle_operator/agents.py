"""What the operator sees of the agents: the Leases by which they say that they live, and the certificates that they were given.

Both stand in the agents' own namespace. What is a cluster's there the operator reads by name, never the list.
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
from spindle.cluster.agent_access import Request
from spindle.disks.agents import Agent
from spindle_operator import ca, metrics
from spindle_operator.kinds import CONFIG_MAP, LEASE, SECRET
from spindle_operator.kube import ApiError, Json, Kube

log = logging.getLogger(__name__)

EVERY: Final = 5.0  # seconds between looks at the Leases
_BREAK: Final = (
    3 * EVERY
)  # seconds without a look, after which what was seen to stand still has to be seen anew
_MEASURED: Final = 6  # the last renewals of which the clock's difference is taken: a minute
_LEASES: Final = "leases"
_CERTIFICATES: Final = "agentcertificates"


@dataclass
class _Known:
    """One Lease: times in seconds of the monotonic clock.

    Attributes:
        record: what changes with each renewal.
        still: since when looks have found it as it is.
        changed: when it was seen to change; None if it was not.
        ahead: by how much the clock that wrote it was ahead, at the last renewals.
        asked: the signing request on it, as it stands.
        request: the same, if it may be granted.
    """

    record: tuple[Any, ...]
    still: float
    changed: float | None = None
    ahead: deque[float] = field(default_factory=lambda: deque(maxlen=_MEASURED))
    asked: str = ""
    request: Request | None = None

    def asks(self, node: str, asked: str) -> None:
        """Note the signing request; one that may not be granted is told of once, and counts as none."""
        if asked == self.asked:
            return
        self.asked, self.request = asked, None
        if asked:
            try:
                self.request = ca.read_request(asked.encode(), names.agent_principal(node))
            except (
                ValueError,
                TypeError,
                ArithmeticError,
                LookupError,
            ) as error:  # whatever one node writes, others are heard
                log.warning("the agent on %s gets no certificate for what it asks: %s", node, error)

    def offset(self) -> float | None:
        """A Lease is seen a while after it was written, so the largest difference is the truest."""
        return max(self.ahead, default=None)


class AgentMonitor:
    """Looks at the agents' Leases every few seconds; an agent's age is that of the last change that was seen here, by no other clock."""

    def __init__(self, kube: Kube, namespace: str, changed: Callable[[], None] = lambda: None) -> None:
        """One for a whole process.

        Args:
            kube: the API server.
            namespace: of the agents.
            changed: called when an agent was heard that was not, or is no longer, or has another key.
        """
        self.namespace = namespace
        # Secrets of agents of earlier versions that were seen not to be there. Nothing makes one any more, so each is looked for until then.
        self.secrets_gone: set[str] = set()
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
            request=known.request,
        )

    def _states(self) -> dict[str, tuple[bool, bool, Request | None]]:
        return {node: (agent.alive, agent.silent, agent.request) for node, agent in self.agents().items()}

    def _take(self, found: Iterable[Json], now: float, wall: float) -> None:
        """What a look found.

        Args:
            found: the Leases.
            now: seconds of the monotonic clock.
            wall: seconds since the epoch.
        """
        gap = self._looked is None or now - self._looked > _BREAK
        self._looked = now
        there = {node: (record, at, lease) for lease in found for node, record, at in _renewal(lease)}
        for node, (record, at, lease) in there.items():
            known = self._known.get(node)
            if known is None:
                known = self._known[node] = _Known(record, now)
            elif known.record != record:
                known.record, known.still, known.changed = record, now, now
                if not gap:
                    known.ahead.append(at - wall)
            elif gap:
                known.still = now
            known.asks(node, str((lease["metadata"].get("annotations") or {}).get(names.ANN_REQUEST) or ""))
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
        certificates: the ConfigMap with those for this cluster.
        secret: the one that agents of earlier versions have for it.
        problems: what could not be read, by its key in ``Snapshot.unknown`` → why.
    """

    namespace: str = ""
    certificates: Json | None = None
    secret: Json | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


async def look(kube: Kube, watch: AgentMonitor | None, namespace: str, cluster: str) -> Agents:
    """Look at the agents on behalf of one KafkaCluster; where there are none, nothing is asked."""
    if watch is None:
        return Agents()
    problems: dict[str, str] = {}
    own: Json | None = None
    secret: Json | None = None
    name = names.agent_certificates(namespace, cluster)
    if not watch.begun:
        await watch.look()
    try:
        own = await kube.find(CONFIG_MAP, watch.namespace, name)
        if name not in watch.secrets_gone:
            secret = await kube.find(SECRET, watch.namespace, name)
            if secret is None:
                watch.secrets_gone.add(name)
    except ApiError as error:
        problems[_CERTIFICATES] = str(error)
        log.warning(
            "%s cannot be read in %s for %s/%s: %s", _CERTIFICATES, watch.namespace, namespace, cluster, error
        )
    if (why := watch.problem) is not None:
        problems[_LEASES] = why
    return Agents(watch.namespace, own, secret, problems)


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
