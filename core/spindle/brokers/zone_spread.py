"""Spreads brokers (or controllers) over zones before their pods are created.

A zone is chosen once and recorded. It becomes the broker's rack, and the pod's node affinity until its volumes pin the pod. The
choice uses the present nodes and is the best one possible with them; an uneven spread is reported and does not
delay the placement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spindle.model import nodes as node_facts
from spindle.model.nodes import NodeObject
from spindle.model.waiting import Waiting, counted, some

_UNLIMITED = 1 << 30  # brokers per node if nothing limits them


@dataclass(frozen=True)
class Placed:
    """The placement of a broker.

    Attributes:
        zone: recorded when it was placed; None without zones.
        node: the Kubernetes node of its volumes or its pod; None while neither is bound.
    """

    zone: str | None
    node: str | None = None


@dataclass(frozen=True)
class Spread:
    """The result of `spread`.

    Attributes:
        assignments: new id → zone; None if the cluster has no zones. Ids that could not be placed are missing.
        unplaced: ids that could not be placed, in the requested order.
        problems: waiting entries. Reasons: NoZoneLabels, NodesWithoutZone,
            InsufficientNodes, SingleZone, UnevenSpread, ZoneWithoutBrokers, ZoneChanged, MixedRacks, BrokersWithoutRack.
        counts: zone → number of brokers, including the new ones; 0 for zones without brokers.
        empty_zones: zones without a broker that have space; reported even if the spread is even.
        nodes: new id → the first node by name with room for it, where free volumes limit the room.
    """

    assignments: Mapping[int, str | None] = field(default_factory=dict)
    unplaced: tuple[int, ...] = ()
    problems: tuple[Waiting, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    empty_zones: tuple[str, ...] = ()
    nodes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The nodes, and the requirements of the pods.

    Attributes:
        nodes: all nodes, raw.
        topology_key: the label whose value is the zone.
        tolerations: of the pods, including those that every Kafka pod has.
        node_selector: of the pods.
        room: node name → number of brokers whose disks fit there (`spindle.brokers.volume_room.room`); None for no limit.
        shared_nodes: whether a node may run several.
        what: the kind that is placed, for messages: ``broker`` or ``controller``.
    """

    nodes: Sequence[NodeObject]
    topology_key: str
    tolerations: Sequence[Mapping[str, Any]] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    room: Mapping[str, int] | None = None
    shared_nodes: bool = False
    what: str = "broker"


def spread(site: Topology, existing: Mapping[int, Placed], wanted: Sequence[int] = ()) -> Spread:
    """Choose a zone for each new broker; if none is wanted, only report on the present spread.

    Each gets the zone with the fewest brokers among those with space, the first by name among equals. Either all brokers have a
    zone or none has: this depends on the existing brokers, or on the nodes if there are no brokers yet.

    Args:
        site: the nodes and the requirements of the pods.
        existing: every broker of all pools that was placed before, including those that are down or pending.
        wanted: ids to place now, in order.
    """
    return _Spreading(site, existing, wanted).run()


def rack_status(brokers: Mapping[int, str | None]) -> list[dict[str, Any]]:
    """``status.racks``: each rack with its brokers, both sorted; without brokers that have no rack."""
    racks: dict[str, list[int]] = {}
    for broker_id, rack in sorted(brokers.items()):
        if rack is not None:
            racks.setdefault(rack, []).append(broker_id)
    return [{"rack": rack, "brokers": ids} for rack, ids in sorted(racks.items())]


class _Spreading:
    """One run of `spread`."""

    def __init__(self, site: Topology, existing: Mapping[int, Placed], wanted: Sequence[int]) -> None:
        self.site = site
        self.existing = existing
        self._taken = {placed.node for placed in existing.values()}
        self.wanted = [i for i in dict.fromkeys(wanted) if i not in existing]
        meant = [n for n in site.nodes if node_facts.belongs(n, site.node_selector, site.tolerations)]
        self.zone_of = {node_facts.name(n): node_facts.zone(n, site.topology_key) for n in meant}
        self.open = {node_facts.name(n) for n in meant if node_facts.admits(n, site.tolerations)}
        recorded = {placed.zone for placed in existing.values()}
        labelled = any(zone is not None for zone in self.zone_of.values())
        self.zoned = bool(recorded - {None}) or (not recorded and labelled)
        self.capacity = self._capacities()
        self.counts = Counter(placed.zone for placed in existing.values())
        self.assignments: dict[int, str | None] = {}
        self.nodes: dict[int, str] = {}

    def run(self) -> Spread:
        """Place the new ones, then collect the problems."""
        before = sum(1 for node in self._usable() if self._fits(node) > 0)
        for broker_id in self.wanted:
            choice = self._choose()
            if choice is not None:
                zone = choice or None
                self.assignments[broker_id] = zone
                self.counts[zone] += 1
                self.capacity[choice] -= 1
                self._choose_node(broker_id, choice)
        unplaced = tuple(i for i in self.wanted if i not in self.assignments)
        zones = {zone for zone in self.zone_of.values() if zone} | {zone for zone in self.counts if zone}
        counts = {zone: self.counts[zone] for zone in sorted(zones)} if self.zoned else {}
        empty = tuple(zone for zone, count in counts.items() if not count and self.capacity.get(zone, 0) > 0)
        problems = [
            *self._too_few(unplaced, before),
            *self._labels(),
            *self._shape(counts, empty),
            *self._changes(),
        ]
        return Spread(dict(self.assignments), unplaced, tuple(problems), counts, empty, dict(self.nodes))

    def _usable(self) -> list[str]:
        """Open nodes; if zones are used, only those with a zone."""
        return sorted(node for node in self.open if not self.zoned or self.zone_of[node])

    def _fits(self, node: str) -> int:
        """Number of new brokers that fit on a node."""
        if self.site.shared_nodes:
            return self._room(node)
        return 0 if self._has_broker(node) else min(1, self._room(node))

    def _room(self, node: str) -> int:
        """Number of brokers whose disks fit on a node."""
        return _UNLIMITED if self.site.room is None else max(0, self.site.room.get(node, 0))

    def _has_broker(self, node: str) -> bool:
        """Whether a broker is bound to a node."""
        return node in self._taken

    def _capacities(self) -> dict[str, int]:
        """Zone (empty for none) → number of new brokers that fit on its nodes."""
        capacity: Counter[str] = Counter()
        for node in self._usable():
            capacity[self.zone_of[node] or "" if self.zoned else ""] += self._fits(node)
        # A broker that is not bound yet will use a node of its zone; it is unknown which one.
        for placed in self.existing.values():
            if placed.node is None:
                capacity[placed.zone or ""] -= 1
        return dict(capacity)

    def _choose(self) -> str | None:
        """The zone for the next broker (empty for none); None if no node has space."""
        free = [zone for zone, capacity in self.capacity.items() if capacity > 0]
        return min(free, key=lambda zone: (self.counts[zone or None], zone), default=None)

    def _choose_node(self, broker_id: int, choice: str) -> None:
        """Choose a node in a zone (empty for none)."""
        if self.site.room is None:
            return
        taken = Counter(self.nodes.values())
        inside = (node for node in self._usable() if not self.zoned or self.zone_of[node] == choice)
        node = next((node for node in inside if self._fits(node) > taken[node]), None)
        if node is not None:
            self.nodes[broker_id] = node

    def _too_few(self, unplaced: Sequence[int], before: int) -> Iterable[Waiting]:
        if not unplaced:
            return
        what, key = self.site.what, self.site.topology_key
        closed = sorted(set(self.zone_of) - self.open)
        taken = sorted(n for n in self._usable() if not self.site.shared_nodes and self._has_broker(n))
        full = [n for n in self._usable() if n not in taken and self._room(n) < 1]
        unlabelled = sorted(self.open - set(self._usable()))
        why = "".join(
            f"; {counted(len(names), 'node')} {reason}: {some(names)}"
            for names, reason in (
                (taken, f"with a {what} already"),
                (closed, "cordoned or not ready"),
                (full, "without free volumes for all disks"),
                (unlabelled, f"without the label {key}"),
            )
            if names
        )
        sharing = (
            "" if self.site.shared_nodes else ", or set spec.scheduling.sharedNodes so that they share nodes"
        )
        yield Waiting.refused(
            rule=None,
            reason="InsufficientNodes",
            message=f"{counted(len(self.wanted), what)} wanted, {counted(before, 'node')} with room: "
            f"no node for {what} {some([str(i) for i in unplaced])}{why}.",
            unblocked_by=f"Add nodes with free volumes, reduce the number of {what}s{sharing}.",
            objects=tuple(str(i) for i in unplaced),
        )

    def _labels(self) -> Iterable[Waiting]:
        key, what = self.site.topology_key, self.site.what
        unlabelled = tuple(sorted(node for node, zone in self.zone_of.items() if zone is None))
        without = [str(i) for i, placed in sorted(self.existing.items()) if placed.zone is None]
        if self.zoned and unlabelled:
            yield Waiting.refused(
                rule=None,
                reason="NodesWithoutZone",
                message=f"{counted(len(unlabelled), 'node')} without the label {key} will get no {what}, because other nodes "
                f"have it: {some(unlabelled)}.",
                unblocked_by=f"Label them with {key}, or exclude them with spec.scheduling.nodeSelector.",
                objects=unlabelled,
            )
        if self.zoned and without:
            yield Waiting.refused(
                rule=None,
                reason="MixedRacks",
                message=f"{counted(len(without), what)} without a zone, while others have one: {some(without)}.",
                unblocked_by=f"Label the nodes of {what} {some(without)} with {key}.",
                objects=tuple(without),
            )
        if self.zoned or not self.zone_of:
            return
        labelled = sorted({zone for zone in self.zone_of.values() if zone})
        if labelled:
            yield Waiting.refused(
                rule=None,
                reason="BrokersWithoutRack",
                message=f"The {what}s were created without zones. Now there are nodes with the label {key} "
                f"({some(labelled)}), and no {what} uses them.",
                unblocked_by=f"Label the nodes of all {what}s with {key}, or remove the label from all nodes.",
                objects=tuple(labelled),
            )
        else:
            yield Waiting.refused(
                rule=None,
                reason="NoZoneLabels",
                message=f"No node that can run a {what} has the label {key}; Spindle places them without racks.",
                unblocked_by=f"Label the nodes with {key}, or name another label in spec.racks.topologyKey.",
                objects=unlabelled,
            )

    def _shape(self, counts: Mapping[str, int], empty: Sequence[str]) -> Iterable[Waiting]:
        """SingleZone, UnevenSpread, ZoneWithoutBrokers."""
        what, total, most = self.site.what, sum(counts.values()), max(counts.values(), default=0)
        if total > 1 and len(counts) == 1:
            yield Waiting.refused(
                rule=None,
                reason="SingleZone",
                message=f"All {counted(total, what)} are in zone {next(iter(counts))}, the only zone: "
                "if it fails, all of them fail.",
                unblocked_by=f"Add nodes in other zones (label {self.site.topology_key}).",
                objects=tuple(counts),
            )
        new = [zone for zone in empty if most > 1]
        if new:
            yield Waiting.refused(
                rule=None,
                reason="ZoneWithoutBrokers",
                message=f"No {what} is in zone {some(new)}, which has room, while others have several: {_tally(counts)}.",
                unblocked_by=f"Nothing to do: the next new {what} goes there; existing ones stay with their disks.",
                objects=tuple(new),
            )
        rest = {zone: count for zone, count in counts.items() if zone not in new}
        if rest and max(rest.values()) - min(rest.values()) > 1:
            fewest = [zone for zone, count in rest.items() if count == min(rest.values())]
            roomy = all(self.capacity.get(zone, 0) > 0 for zone in fewest)
            yield Waiting.refused(
                rule=None,
                reason="UnevenSpread",
                message=f"The {what}s are not spread evenly over the zones: {_tally(counts)}.",
                unblocked_by=f"The next new {what}s balance the zones; existing ones stay with their disks."
                if roomy
                else f"Add nodes with free volumes in zone {some(fewest)}, then {what}s.",
                objects=tuple(rest),
            )

    def _changes(self) -> Iterable[Waiting]:
        """Nodes whose zone label differs from the recorded zone."""
        key, what = self.site.topology_key, self.site.what
        now = {node_facts.name(n): node_facts.zone(n, key) for n in self.site.nodes}
        changed = [
            (broker_id, placed, now[placed.node])
            for broker_id, placed in sorted(self.existing.items())
            if placed.node in now and placed.zone is not None and now[placed.node] != placed.zone
        ]
        if changed:
            stories = [f"{what} {i} in {p.zone}, node {p.node} in {zone or 'none'}" for i, p, zone in changed]
            yield Waiting.refused(
                rule=None,
                reason="ZoneChanged",
                message=f"The label {key} has changed since {counted(len(changed), what)} "
                f"{'was' if len(changed) == 1 else 'were'} placed: {some(stories)}.",
                unblocked_by=f"Restore the label. If the node really moved, stop and start the {what} (spec.maintenance.stopped): it then uses "
                "its node's zone as its rack.",
                objects=tuple(str(i) for i, _, _ in changed),
            )


def _tally(counts: Mapping[str, int]) -> str:
    """``a 2, b 1, c 0``."""
    return some([f"{zone} {count}" for zone, count in sorted(counts.items())], limit=12)
