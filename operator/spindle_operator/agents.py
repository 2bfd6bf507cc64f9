"""What the operator reads about the agents: their Leases (heartbeats) and the certificates issued to them.

Both are in the agents' namespace. The operator reads the objects of a cluster there by name, never as a list.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spindle.api import names
from spindle.model.agent_access import Request
from spindle.model.agents import Agent
from spindle_operator import ca, metrics
from spindle_operator.kinds import CONFIG_MAP, LEASE, SECRET
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

EVERY: Final = 5.0  # seconds between reads of the Leases
_BREAK: Final = 3 * EVERY  # seconds without a read, after which an unchanged Lease has to be observed again
_MEASURED: Final = 6  # the last renewals from which the clock difference is computed: a minute
_LEASES: Final = "leases"
_CERTIFICATES: Final = "agentcertificates"


@dataclass
class _Known:
    """One Lease: times in seconds of the monotonic clock.

    Attributes:
        record: the part that changes with each renewal.
        still: time of the first read that found the present record.
        changed: when a change was observed; None if none was.
        ahead: by how much the clock that wrote it was ahead, at the last renewals.
        asked: the signing request on it, unchecked.
        request: the same, if it may be granted.
        reads_parts: see `Agent`.
    """

    record: tuple[Any, ...]
    still: float
    changed: float | None = None
    ahead: deque[float] = field(default_factory=lambda: deque(maxlen=_MEASURED))
    asked: str = ""
    request: Request | None = None
    reads_parts: bool = False

    def asks(self, node: str, asked: str) -> None:
        """Record the signing request. One that must not be granted is logged once, and ignored."""
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
            ) as error:  # an invalid Lease of one node must not affect others
                log.warning("the certificate request of the agent on %s is rejected: %s", node, error)

    def offset(self) -> float | None:
        """A Lease is read some time after it was written, so the largest difference is the most accurate."""
        return max(self.ahead, default=None)


class AgentMonitor:
    """Reads the agents' Leases every few seconds. The age of a heartbeat is the time since this process observed the last change; only its clock counts."""

    def __init__(self, kube: Kube, namespace: str, changed: Callable[[], None] = lambda: None) -> None:
        """One per process.

        Args:
            kube: the API server.
            namespace: of the agents.
            changed: called when an agent appears or falls silent, or has another key.
        """
        self.namespace = namespace
        # Secrets of agents of earlier versions that are known not to exist. Nothing creates them any more, so each is read until it is absent.
        self.secrets_gone: set[str] = set()
        # ConfigMaps of parts that are not needed and did not exist when they were last read. Only the operator creates them.
        self.parts_gone: set[str] = set()
        self._kube = kube
        self._changed = changed
        self._known: dict[str, _Known] = {}
        self._looked: float | None = None
        self._problem = ""

    async def run(self) -> None:
        """Read the Leases until cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:  # an error in the code must not end it: the next read may succeed
                log.exception("the agents' Leases could not be evaluated")
                self._problem = f"{type(error).__name__}: {error}"
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Read once; `problem` reports errors."""
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
        """Whether the Leases were read, successfully or not."""
        return self._looked is not None or bool(self._problem)

    @property
    def problem(self) -> str | None:
        """Why the agents are unknown; None if the last successful read is recent."""
        if self._looked is not None and time.monotonic() - self._looked <= _BREAK:
            return None
        return self._problem or "the Leases were not read recently"

    def agents(self) -> dict[str, Agent]:
        """Node → state of its agent now."""
        now = time.monotonic()
        return {node: self._agent(known, now) for node, known in self._known.items()}

    def _agent(self, known: _Known, now: float) -> Agent:
        return Agent(
            age=None if known.changed is None else now - known.changed,
            unchanged=(self._looked or 0.0) - known.still,
            ahead=known.offset(),
            request=known.request,
            reads_parts=known.reads_parts,
        )

    def _states(self) -> dict[str, tuple[bool, bool, Request | None, bool]]:
        return {
            node: (agent.alive, agent.silent, agent.request, agent.reads_parts)
            for node, agent in self.agents().items()
        }

    def _take(self, found: Iterable[Json], now: float, wall: float) -> None:
        """Take in the result of a read.

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
            annotations = lease["metadata"].get("annotations") or {}
            known.asks(node, str(annotations.get(names.ANN_REQUEST) or ""))
            known.reads_parts = annotations.get(names.ANN_PARTS) == str(len(names.AGENT_PARTS))
        for node, known in [*self._known.items()]:
            # A Lease that is missing for a moment (recreated) keeps its last heartbeat.
            if node not in there and not self._agent(known, now).alive:
                del self._known[node]
        metrics.clocks(
            {node: ahead for node, known in self._known.items() if (ahead := known.offset()) is not None}
        )


@dataclass(frozen=True)
class Agents:
    """Objects read from the agents' namespace.

    Attributes:
        namespace: empty if there are no agents.
        certificates: the ConfigMaps with the agents' certificates for this cluster.
        secret: the Secret that agents of earlier versions use for it.
        problems: what could not be read, by its key in ``Snapshot.unknown`` → why.
    """

    namespace: str = ""
    certificates: tuple[Json, ...] = ()
    secret: Json | None = None
    problems: Mapping[str, str] = field(default_factory=dict)


async def look(
    kube: Kube, watch: AgentMonitor | None, namespace: str, cluster: str, nodes: Collection[str] | None
) -> Agents:
    """Read the agents' objects for one KafkaCluster; without agents nothing is read.

    Args:
        kube: the API server.
        watch: of the agents; None if there are none.
        namespace, cluster: of the KafkaCluster.
        nodes: with brokers of it; None to read everything.
    """
    if watch is None:
        return Agents()
    problems: dict[str, str] = {}
    own: tuple[Json, ...] = ()
    secret: Json | None = None
    name = names.agent_certificates(namespace, cluster)
    if not watch.begun:
        await watch.look()
    try:
        own = await _certificates(kube, watch, namespace, cluster, nodes)
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


async def _certificates(
    kube: Kube, watch: AgentMonitor, namespace: str, cluster: str, nodes: Collection[str] | None
) -> tuple[Json, ...]:
    """Those of the parts of these nodes, whatever else is left, and the one that agents of earlier versions read."""
    every = names.agent_parts(namespace, cluster)
    needed = set(every) if nodes is None else {names.agent_part(namespace, cluster, node) for node in nodes}
    parts = [name for name in every if name in needed or name not in watch.parts_gone]
    wanted = [names.agent_certificates(namespace, cluster), *parts]
    found = await asyncio.gather(*(kube.find(CONFIG_MAP, watch.namespace, name) for name in wanted))
    there = {name for name, obj in zip(wanted, found, strict=True) if obj is not None}
    watch.parts_gone.difference_update(there)
    # This pass may create those that are needed.
    watch.parts_gone.update(name for name in parts if name not in there and name not in needed)
    return tuple(obj for obj in found if obj is not None)


def _renewal(lease: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...], float]]:
    """Node of a Lease, the part that changes with a renewal, and its time; empty if it is not an agent's, or has no valid time."""
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
