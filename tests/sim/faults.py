"""Faults: each kind is one small function, called at a random moment, for a limited time.

A function starts the fault and returns what ends it, or None: a fault that does not end by itself is resolved by users.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spindle.api import names
from spindle.manifests import backup as backups
from tests.sim import faults_told
from tests.sim.api import NAMESPACE, Json
from tests.sim.controllers import claims_of
from tests.sim.disks import FileSystem, Slot
from tests.sim.variety import SAMPLE, Variety, cluster


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: name of the function.
        at: seconds after the start of the load.
        lasts: seconds until it ends by itself.
        salt: seed of the function's choices.
        told: predefined choices, by name (kept runs).
    """

    kind: str
    at: float
    lasts: float
    salt: int
    told: tuple[tuple[str, Any], ...] = ()


End = Callable[[], None] | None
_MOST_TOPICS = 30


@dataclass
class Hand:
    """Choices for a fault's function."""

    world: Any
    rng: random.Random
    told: dict[str, Any]

    def broker(self, name: str = "broker") -> int:
        """A broker."""
        ids = sorted(int(b["spec"]["id"]) for b in self.world.api.all("KafkaBroker")) or [0]
        return int(self.told.get(name, self.rng.choice(ids)))

    def slot(self, which: str = "") -> tuple[str, Slot] | None:
        """A slot that a broker uses: its name in the story, and the slot."""
        broker = self.broker(f"broker{which}")
        found = self.world.api.get("KafkaBroker", names.broker_name(SAMPLE, broker))
        disks = [d["name"] for d in (found or {}).get("spec", {}).get("disks") or ()]
        if not disks:
            return None
        disk = self.told.get(f"disk{which}", self.rng.choice(disks))
        slot = self.world.kubelets.slot_of(names.claim_name(SAMPLE, broker, disk))
        return None if slot is None else (f"{disk} of broker {broker} ({slot.node}{slot.path})", slot)

    def node(self) -> Any:
        """A machine."""
        nodes = self.world.kubelets.nodes
        return nodes[self.told["node"]] if "node" in self.told else nodes[self.rng.choice(sorted(nodes))]

    def operator(self) -> Any:
        """One of the operator's pods."""
        return self.rng.choice(self.world.operators)


def choose(seed: int, variety: Variety, within: float) -> tuple[Fault, ...]:
    """One to three faults at once, once or several times."""
    rng = random.Random(seed * 104729 + 3)
    made = []
    kinds = sorted(KINDS)
    weights = [_WEIGHTS.get(kind, 2) for kind in kinds]
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.uniform(0.0, within)
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            (kind,) = rng.choices(kinds, weights)
            together = at if rng.random() < 0.4 else at + rng.expovariate(1 / 40.0)
            lasts = rng.choice((3.0, 20.0, 60.0, 200.0, 600.0))
            made.append(Fault(kind, round(together, 2), lasts, rng.getrandbits(32)))
    return tuple(sorted(made, key=lambda fault: fault.at))


def strike(world: Any, fault: Fault) -> None:
    """Start it, and end it in time."""
    if world.trouble_over:
        return
    hand = Hand(world, random.Random(fault.salt), dict(fault.told))
    if fault.kind in _NEEDS_CLUSTER and world.cluster() is None:
        return
    end = KINDS[fault.kind](hand)
    if end is None:
        return
    once = _Once(end)
    world.ends.append(once)
    world.kernel.call_later(fault.lasts, once)


class _Once:
    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def __call__(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()


def end_all(world: Any) -> None:
    """End all active faults."""
    for end in world.ends:
        end()
    world.ends.clear()


# --- disks ------------------------------------------------------------------------------------------------------------


def _state(hand: Hand, state: Any, word: str, *, comes_back: bool) -> End:
    found = hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, fs = found[0], found[1].fs
    before = fs.state
    fs.state = state
    if state == "hung":
        fs.hangs_since = hand.world.kernel.now
    hand.world.kernel.say("disk", f"{what} {word}", fs.disk)
    hand.world.kafka_disk_changed(fs)
    if not comes_back:
        return None

    def end() -> None:
        if fs.state == state:
            fs.state = "well" if before == state else before
            hand.world.kernel.say("disk", f"{what} is healthy again", fs.disk)
            hand.world.kafka_disk_changed(fs)

    return end


def disk_dies(hand: Hand) -> End:
    """Every read and write fails with an I/O error, permanently."""
    return _state(hand, "dead", "dies", comes_back=False)


def disk_dies_for_a_while(hand: Hand) -> End:
    """A loose cable."""
    return _state(hand, "dead", "answers with I/O errors", comes_back=True)


def disk_hangs(hand: Hand) -> End:
    """It does not answer, for a while."""
    return _state(hand, "hung", "hangs", comes_back=True)


def disk_hangs_for_good(hand: Hand) -> End:
    """It does not answer any more, until it is pulled."""
    return _state(hand, "hung", "hangs permanently", comes_back=False)


def disk_readonly(hand: Hand) -> End:
    """Remounted read-only after an error."""
    return _state(hand, "readonly", "is remounted read-only", comes_back=hand.rng.random() < 0.5)


def disk_slow(hand: Hand) -> End:
    """Each write takes seconds."""
    return _state(hand, "slow", "crawls", comes_back=True)


def two_disks_of_one_broker(hand: Hand) -> End:
    """Two disks of one broker fail together."""
    broker = hand.broker()
    for disk in (0, 1):
        more = Hand(hand.world, hand.rng, {"broker": broker, "disk": names.disk_name(disk)})
        _state(more, "dead", "dies", comes_back=False)
    return None


def two_disks_of_two_brokers(hand: Hand) -> End:
    """One disk of each of two brokers fails."""
    disk_dies(hand)
    hand.told.clear()
    return disk_dies(hand)


def disk_pulled(hand: Hand) -> End:
    """Pulled while the broker runs, and put back after a while."""
    found = hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, slot = found
    fs = slot.fs
    assert fs is not None
    before, fs.state, slot.fs = fs.state, "dead", None
    hand.world.kernel.say("person", f"pulls out {what}", fs.disk)
    hand.world.kafka_disk_changed(fs)

    def end() -> None:
        if slot.fs is None:
            slot.fs = fs
            fs.state = before
            hand.world.kernel.say("person", f"puts {fs.disk} back into {what}")

    return end


def disk_swapped(hand: Hand) -> End:
    """A blank disk replaces it while the broker runs and holds the old file system open."""
    found = hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, slot = found
    old = slot.fs
    assert old is not None
    slot.fs = hand.world.kubelets.new_disk(old.capacity)
    if hand.told.get("gone", hand.rng.random() < 0.5):
        old.state = "dead"
    hand.world.pulled.append(old)
    hand.world.kernel.say("person", f"swaps {what} for a blank one", f"{old.disk}, now {slot.fs.disk}")
    hand.world.kafka_disk_changed(old)
    return None


def disks_exchanged(hand: Hand) -> End:
    """Two disks, of one node or of two, are exchanged, and exchanged back later."""
    one, other = hand.slot("1"), hand.slot("2")
    if one is None or other is None or one[1] is other[1]:
        return None
    a, b = one[1], other[1]
    a.fs, b.fs = b.fs, a.fs
    hand.world.kernel.say("person", f"exchanges {one[0]} and {other[0]}")

    def end() -> None:
        a.fs, b.fs = b.fs, a.fs
        hand.world.kernel.say("person", f"exchanges {one[0]} and {other[0]} back")

    return end


def disk_fills(hand: Hand) -> End:
    """Other files fill it."""
    found = hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, slot = found
    fs = slot.fs
    assert fs is not None
    taken = int(fs.free * hand.told.get("share", hand.rng.choice((0.5, 0.85, 0.97, 1.0))))
    fs.other_bytes += taken
    hand.world.kernel.say(
        "disk", f"{what} fills up", f"{100 * fs.used // fs.capacity} % of {fs.disk} are used"
    )

    def end() -> None:
        fs.other_bytes = max(0, fs.other_bytes - taken)
        hand.world.kernel.say("person", f"removes other files from {what}")

    return end


# --- machines ---------------------------------------------------------------------------------------------------------


def node_off(hand: Hand) -> End:
    """Powered off for a while."""
    world, node = hand.world, hand.node()
    if not node.up:
        return None
    world.kernel.say(node.name, "is powered off")
    world.power_off(node)

    def end() -> None:
        if not node.up and not node.gone:
            world.kernel.say(node.name, "is powered on again")
            world.power_on(node)

    return end


def node_reboots(hand: Hand) -> End:
    """Like the former, but back within a minute or two."""
    world, node = hand.world, hand.node()
    end = node_off(hand)
    if end is not None:
        world.kernel.call_later(30.0 + 100.0 * hand.rng.random(), end)
    return end if node else None


def node_gone(hand: Hand) -> End:
    """A machine is lost with its disks, and an administrator taints its Node or deletes it."""
    world, node = hand.world, hand.node()
    if not node.up or node.gone:
        return None
    world.kernel.say("node", f"{node.name} is permanently lost")
    world.power_off(node)
    node.gone = True
    live = world.api.get("Node", node.name)

    def tell() -> None:
        if hand.told.get("deleted"):
            world.api.remove(live)
        else:
            taint = {"key": "node.kubernetes.io/out-of-service", "value": "off", "effect": "NoExecute"}
            world.api.change(live, {"spec": {"taints": [taint]}}, manager="person")

    world.kernel.call_later(60.0, tell)
    return None


def two_nodes_off(hand: Hand) -> End:
    """Two at once."""
    ends = [node_off(hand), node_off(hand)]

    def end() -> None:
        for each in ends:
            if each is not None:
                each()

    return end


def clock_jumps(hand: Hand) -> End:
    """A node's clock is off, by up to a quarter of an hour."""
    node = hand.node()
    before, node.skew = (
        node.skew,
        hand.told.get("skew", hand.rng.choice((-900.0, -660.0, -45.0, 45.0, 660.0, 900.0))),
    )
    hand.world.kernel.say(node.name, f"has a clock that is {node.skew:+.0f} s off")

    def end() -> None:
        node.skew = before
        hand.world.kernel.say(node.name, f"has its clock {before:+.0f} s off")

    return end


def operator_clock_jumps(hand: Hand) -> End:
    """The clock of the operator's node is off."""
    operator = hand.operator()
    operator.skew = hand.rng.choice((-900.0, -120.0, 120.0, 900.0))
    hand.world.kernel.say(operator.name, f"has a clock that is {operator.skew:+.0f} s off")

    def end() -> None:
        operator.skew = 0.0

    return end


def machine_starved(hand: Hand) -> End:
    """One machine is so overloaded that every write takes ten seconds."""
    return _starved(hand, [hand.node()])


def machines_starved(hand: Hand) -> End:
    """All of them."""
    return _starved(hand, list(hand.world.kubelets.nodes.values()))


def _starved(hand: Hand, nodes: list[Any]) -> End:
    slowed: list[FileSystem] = []
    for node in nodes:
        node.starved = hand.world.kernel.now + 100_000.0
        for slot in node.slots.values():
            if slot.fs is not None and slot.fs.state == "well":
                slot.fs.state = "slow"
                slowed.append(slot.fs)
    hand.world.kernel.say("machines", f"{', '.join(n.name for n in nodes)} starved: each write takes seconds")
    for fs in slowed:
        hand.world.kafka_disk_changed(fs)

    def end() -> None:
        for node in nodes:
            node.starved = 0.0
        for fs in slowed:
            if fs.state == "slow":
                fs.state = "well"
                hand.world.kafka_disk_changed(fs)
        hand.world.kernel.say("machines", "are not overloaded any more")

    return end


# --- links and servers ------------------------------------------------------------------------------------------------


def _cut(hand: Hand, *pairs: tuple[str, str]) -> End:
    made = {frozenset(pair) for pair in pairs} - hand.world.net.cuts
    hand.world.net.cuts |= made
    hand.world.kernel.say(
        "network", "cut: " + ", ".join(" and ".join(sorted(pair)) for pair in sorted(made, key=sorted))
    )

    def end() -> None:
        hand.world.net.cuts -= made
        hand.world.kernel.say(
            "network",
            "restored: " + ", ".join(" and ".join(sorted(pair)) for pair in sorted(made, key=sorted)),
        )

    return end


def cut_operator_from_kafka(hand: Hand) -> End:
    """The operator cannot connect to any broker."""
    return _cut(hand, *((operator.name, "kafka") for operator in hand.world.operators))


def cut_operator_from_node(hand: Hand) -> End:
    """The operator cannot connect to the brokers of one node."""
    return _cut(hand, (hand.operator().name, hand.node().name))


def cut_operator_from_api(hand: Hand) -> End:
    """It loses its Lease, without noticing at first."""
    return _cut(hand, (hand.operator().name, "api"))


def cut_node_from_api(hand: Hand) -> End:
    """Neither the kubelet nor the agent of a node can connect to the API server."""
    return _cut(hand, (hand.node().name, "api"))


def cut_nodes(hand: Hand) -> End:
    """Two nodes cannot connect to each other."""
    return _cut(hand, (hand.node().name, hand.node().name))


def cut_node_from_nodes(hand: Hand) -> End:
    """One node cannot connect to any other."""
    one = hand.node().name
    return _cut(hand, *((one, other) for other in hand.world.kubelets.nodes if other != one))


def api_away(hand: Hand) -> End:
    """The API server does not answer."""
    hand.world.api.away = True
    hand.world.kernel.say("api", "is unavailable")

    def end() -> None:
        hand.world.api.away = False
        hand.world.kernel.say("api", "is available again")

    return end


def api_troubled(hand: Hand) -> End:
    """Requests to it are lost, late, rejected, or executed without an answer."""
    hand.world.net.api_mishaps = hand.rng.choice((0.02, 0.1, 0.4))
    hand.world.kernel.say("api", f"disturbed: {hand.world.net.api_mishaps:.0%} of requests go wrong")

    def end() -> None:
        hand.world.net.api_mishaps = 0.0

    return end


def kafka_troubled(hand: Hand) -> End:
    """The same for Kafka."""
    hand.world.net.kafka_mishaps = hand.rng.choice((0.02, 0.1, 0.4))
    hand.world.kernel.say("kafka", f"disturbed: {hand.world.net.kafka_mishaps:.0%} of requests go wrong")

    def end() -> None:
        hand.world.net.kafka_mishaps = 0.0

    return end


# --- processes --------------------------------------------------------------------------------------------------------


def operator_killed(hand: Hand) -> End:
    """Between any two events."""
    operator = hand.operator()
    hand.world.kernel.say(operator.name, "is killed")
    operator.kill(again_in=1.0 + 30.0 * hand.rng.random())
    return None


def operator_killed_often(hand: Hand) -> End:
    """Repeatedly."""
    for index in range(hand.rng.randint(3, 12)):
        hand.world.kernel.call_later(
            index * hand.rng.uniform(0.3, 8.0), lambda: hand.operator().kill(again_in=0.5)
        )
    hand.world.kernel.say("operator", "is killed repeatedly")
    return None


def operator_stops(hand: Hand) -> End:
    """Its process is stopped for longer than its Lease is valid, and continues in the middle of a pass."""
    operator = hand.operator()
    seconds = hand.rng.choice((5.0, 12.0, 20.0, 45.0))
    if operator.process is not None:
        operator.process.pause(seconds)
    hand.world.kernel.say(operator.name, f"is stopped for {seconds:.0f} s")
    return None


def agent_killed(hand: Hand) -> End:
    """It restarts with the state in the status."""
    hand.world.agents[hand.node().name].kill(again_in=1.0 + 20.0 * hand.rng.random())
    return None


def agent_gone(hand: Hand) -> End:
    """No agent runs on a node for a while."""
    agent = hand.world.agents[hand.node().name]
    hand.world.kernel.say(agent.name, "is gone")
    agent.kill(again_in=None)

    def end() -> None:
        agent.start()

    return end


def broker_killed(hand: Hand) -> End:
    """Kafka's process is killed by SIGKILL, and its container is restarted."""
    run = hand.world.run_of(hand.broker())
    if run is not None:
        hand.world.kernel.say(run.name, "Kafka is killed")
        hand.world.kafka.stop(run.uid, clean=False)
        hand.world.kubelets._exited(run.uid, "killed")
    return None


def controller_killed(hand: Hand) -> End:
    """The same for a controller."""
    run = hand.world.run_of(names.controller_id(hand.rng.randrange(hand.world.variety.controllers)))
    if run is not None:
        hand.world.kernel.say(run.name, "Kafka is killed")
        hand.world.kafka.stop(run.uid, clean=False)
        hand.world.kubelets._exited(run.uid, "killed")
    return None


# --- objects ----------------------------------------------------------------------------------------------------------

_DELETED = (
    "Pod",
    "Service",
    "ConfigMap",
    "Secret",
    "PodDisruptionBudget",
    "NetworkPolicy",
    "Lease",
    "KafkaBroker",
    "PersistentVolumeClaim",
)
_EDITED = (
    "Pod",
    "Service",
    "ConfigMap",
    "Secret",
    "KafkaBroker",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
)


def _ours(hand: Hand, kinds: tuple[str, ...]) -> Json | None:
    kind = hand.told.get("kind", hand.rng.choice(kinds))
    found = hand.world.api.all(kind)
    if "name" in hand.told:
        found = [obj for obj in found if obj["metadata"]["name"] == hand.told["name"]]
    return hand.rng.choice(found) if found else None


def object_deleted(hand: Hand) -> End:
    """Any of Spindle's objects is deleted by hand."""
    obj = _ours(hand, _DELETED)
    if obj is not None:
        hand.world.kernel.say("person", f"deletes {obj['kind']} {obj['metadata']['name']}")
        hand.world.deleted_by_people.add(obj["metadata"]["name"])
        hand.world.api.remove(obj)
    return None


def claim_and_pod_deleted(hand: Hand) -> End:
    """A claim and the pod that uses it are deleted by hand."""
    pods = [
        p
        for p in hand.world.api.all("Pod")
        if p["metadata"]["name"].startswith(f"{SAMPLE}-broker") and claims_of(p)
    ]
    if "pod" in hand.told:
        pods = [p for p in pods if p["metadata"]["name"] == hand.told["pod"]]
    if pods:
        pod = hand.rng.choice(pods)
        claim = hand.world.api.get("PersistentVolumeClaim", hand.rng.choice(claims_of(pod)))
        hand.world.kernel.say(
            "person",
            f"deletes {pod['metadata']['name']} and one of its claims",
            (claim and claim["metadata"]["name"]) or "",
        )
        if claim is not None:
            hand.world.deleted_by_people.add(claim["metadata"]["name"])
            hand.world.api.remove(claim)
        hand.world.api.remove(pod)
    return None


def label_removed(hand: Hand) -> End:
    """A label of any of Spindle's objects is removed or changed by hand."""
    obj = _ours(hand, _EDITED)
    labels = sorted((obj or {}).get("metadata", {}).get("labels") or ())
    if obj is None or not labels:
        return None
    key = hand.told.get("label", hand.rng.choice(labels))
    value = None if hand.rng.random() < 0.7 else "other"
    hand.world.kernel.say(
        "person",
        f"{'removes' if value is None else 'changes'} label {key} of {obj['kind']} {obj['metadata']['name']}",
    )
    hand.world.api.change(obj, {"metadata": {"labels": {key: value}}}, manager="person")
    return None


def annotation_removed(hand: Hand) -> End:
    """An annotation of any of Spindle's objects, except a claim's identity, is removed by hand."""
    obj = _ours(hand, ("Service", "ConfigMap", "Secret", "PersistentVolumeClaim"))
    notes = sorted(k for k in ((obj or {}).get("metadata", {}).get("annotations") or ()) if "spindle" in k)
    if obj is None or not notes:
        return None
    key = hand.rng.choice(notes)
    hand.world.kernel.say("person", f"removes annotation {key} of {obj['kind']} {obj['metadata']['name']}")
    hand.world.api.change(obj, {"metadata": {"annotations": {key: None}}}, manager="person")
    return None


def cluster_applied_again(hand: Hand) -> End:
    """The KafkaCluster is deleted and applied again, with the same values or others."""
    world = hand.world
    live = world.cluster()
    if live is None or live["metadata"].get("deletionTimestamp"):
        return None
    change = hand.told.get("change", hand.rng.choice(("same", "same", "fewer", "renamed", "more")))
    spec = json.loads(json.dumps(live["spec"]))
    pool = spec["brokerPools"][0]
    if change == "fewer" and pool["replicas"] > 1:
        pool["replicas"] -= 1
    elif change == "renamed":
        pool["name"] = "other"
    elif change == "more":
        pool["replicas"] += 1
        world.more_nodes(1)
    world.kernel.say("person", f"deletes KafkaCluster {SAMPLE}", f"to apply it again: {change}")
    world.api.remove(live)
    when_gone(world, lambda: apply(world, spec, change))
    return None


def apply(world: Any, spec: Json, change: str) -> None:
    """Apply the KafkaCluster again."""
    world.kernel.say("person", f"applies KafkaCluster {SAMPLE} again", change)
    world.api.put({**cluster(world.variety), "spec": spec})
    world.asked = spec


def when_gone(world: Any, then: Callable[[], None]) -> None:
    """Call a function when the KafkaCluster that is being deleted, and its pods, are gone."""
    if world.cluster() is None and not any(
        p["metadata"]["name"].startswith(f"{SAMPLE}-") for p in world.api.all("Pod")
    ):
        then()
    else:
        world.kernel.call_later(5.0, lambda: when_gone(world, then))


def backup_taken(hand: Hand) -> End:
    """Objects of a backup."""
    world = hand.world
    kinds = ("PersistentVolumeClaim", "ConfigMap", "Secret", "KafkaCluster")
    wanted = [
        obj
        for kind in kinds
        for obj in world.api.all(kind)
        if obj["metadata"]["name"] == SAMPLE
        or (obj["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER) == SAMPLE
    ]
    kept = [
        o
        for o in wanted
        if o["kind"] not in ("ConfigMap", "Secret")
        or o["metadata"]["name"] in (names.identity_map(SAMPLE), names.ca_secret(SAMPLE))
    ]
    world.backup = backups.parse_backup(backups.backup(kept))
    world.kernel.say("person", "takes a backup", f"{len(kept)} objects")
    return None


def backup_restored(hand: Hand) -> End:
    """The cluster is deleted with its claims, and the backup is restored."""
    world = hand.world
    live = world.cluster()
    if live is None or world.backup is None or live["metadata"].get("deletionTimestamp"):
        return None
    for volume in world.api.all("PersistentVolume"):
        if (volume["spec"].get("claimRef") or {}).get("namespace") == NAMESPACE:
            world.api.change(volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}, manager="person")
    world.kernel.say("person", f"deletes KafkaCluster {SAMPLE}", "to restore the backup")
    world.api.remove(live)
    claims = hand.told.get("claims", hand.rng.random() < 0.6)
    lost = hand.told.get("without", "random claim" if hand.rng.random() < 0.2 else "")
    when_gone(world, lambda: _wipe_and_restore(world, hand, claims=claims, lost=lost))
    return None


def _wipe_and_restore(world: Any, hand: Hand, *, claims: bool, lost: str) -> None:
    for claim in world.api.all("PersistentVolumeClaim"):
        if claims and (claim["metadata"].get("labels") or {}).get(names.LABEL_CLUSTER) == SAMPLE:
            world.deleted_by_people.add(claim["metadata"]["name"])
            world.api.remove(claim)
    world.kernel.call_later(20.0, lambda: _restore(world, hand, lost))


def _restore(world: Any, hand: Hand, lost: str) -> None:
    kept = world.backup
    volumes = {v["metadata"]["name"]: v for v in world.api.all("PersistentVolume")}
    there = {c["metadata"]["name"]: c for c in world.api.all("PersistentVolumeClaim")}
    against = backups.obstacles(kept, NAMESPACE, volumes, there, lives=world.cluster() is not None)
    if lost == "random claim":
        broker = [c for c in kept.claims if "metadata" not in c["metadata"]["name"]]
        lost = hand.rng.choice(broker)["metadata"]["name"] if broker else ""
    # As `spindle restore` says: a claim whose volume no longer exists is removed from the file; an existing claim with another volume is
    # deleted.
    gone = {name for name, volume in backups.claim_volumes(kept) if volume not in volumes}
    if any("delete it first" in text for text in against) and world.cluster() is None:
        for name, volume in backups.claim_volumes(kept):
            live = there.get(name)
            if live is not None and live["spec"].get("volumeName") not in (None, "", volume):
                world.api.remove(live)
        if not hand.told.get("tried"):
            hand.told["tried"] = True
            world.kernel.call_later(20.0, lambda: _restore(world, hand, lost))
            return
    world.kernel.say(
        "person", "restores the backup", f"without claim {lost}" if lost else "; ".join(against)[:300]
    )
    for claim, volume in backups.claim_volumes(kept):
        if volume in volumes and claim != lost:
            world.api.change(volumes[volume], backups.reserve(NAMESPACE, claim), manager="person")
    owners: dict[tuple[str, str], Json] = {}
    # Like `spindle restore`: the CA's Secret first, because the operator would create its own, and its UID on the KafkaCluster.
    secrets = [obj for obj in kept.objects if obj["kind"] == "Secret" and obj["metadata"]["name"] != lost]
    uids = [
        world.api.put(backups.restored(obj, NAMESPACE, owners))["metadata"]["uid"]
        for obj in secrets
        if world.api.get("Secret", obj["metadata"]["name"]) is None
    ]
    for obj in kept.objects:
        if obj["kind"] == "Secret" or obj["metadata"]["name"] in gone | {lost}:
            continue
        made = {**backups.restored(obj, NAMESPACE, owners)}
        if world.api.get(obj["kind"], obj["metadata"]["name"]) is not None:
            continue
        put = world.api.put({**backups.with_secrets(made, uids)} if obj["kind"] == "KafkaCluster" else made)
        if obj["kind"] == "KafkaCluster":
            owners["KafkaCluster", SAMPLE] = put
            world.asked = json.loads(json.dumps(put["spec"]))
    for obj in secrets:
        live = world.api.get("Secret", obj["metadata"]["name"])
        references = backups.restored(obj, NAMESPACE, owners)["metadata"].get("ownerReferences")
        if live is not None and references and live["metadata"]["uid"] in uids:
            world.api.change(live, {"metadata": {"ownerReferences": references}}, manager="person")


def disk_entry_removed(hand: Hand) -> End:
    """A user removes the last disk from a broker's record, or restores an old copy without it."""
    broker = hand.world.api.get("KafkaBroker", names.broker_name(SAMPLE, hand.broker()))
    if broker is not None:
        disks = broker["spec"]["disks"]
        hand.world.kernel.say(
            "person", f"removes {disks[-1]['name']} from the record of {broker['metadata']['name']}"
        )
        hand.world.api.change(broker, {"spec": {"disks": disks[:-1]}}, manager="person")
    return None


# --- requests of other clients ----------------------------------------------------------------------------------------


def _ask(hand: Hand, api: str, **args: Any) -> Any:
    brokers = [b for b in range(hand.world.variety.brokers) if hand.world.answers(b)]
    if not brokers:
        return None
    try:
        return hand.world.kafka.request(hand.rng.choice(brokers), api, **args)
    except Exception as error:
        if type(error).__name__ in ("KafkaFault", "Timeout"):
            return None
        raise


def _partitions(hand: Hand) -> list[Any]:
    return _ask(hand, "describe_topic_partitions") or []


def reassigned_by_others(hand: Hand) -> End:
    """Another client reassigns a partition."""
    found = _partitions(hand)
    if not found:
        return None
    p = hand.rng.choice(found)
    if "partition" in hand.told:
        p = next(p for p in found if [p["topic"], p["partition"]] == list(hand.told["partition"]))
    live = [b for b in range(hand.world.variety.brokers) if hand.world.answers(b)]
    count = min(len(live), len(p["replicas"]))
    to = hand.told.get("to", hand.rng.sample(live, count))
    hand.world.kernel.say(
        "somebody", f"reassigns {p['topic'][:20]}-{p['partition']} from {p['replicas']} to {to}"
    )
    _ask(hand, "alter_partition_reassignments", assignments={(p["topic"], p["partition"]): to})
    return None


def reassignment_cancelled_by_others(hand: Hand) -> End:
    """Another client cancels running reassignments."""
    moving = _ask(hand, "list_reassignments") or {}
    if moving:
        key = hand.rng.choice(sorted(moving))
        hand.world.kernel.say("somebody", f"cancels the reassignment of {key[0][:20]}-{key[1]}")
        _ask(hand, "alter_partition_reassignments", assignments={key: None})
    return None


def topic_made_again(hand: Hand) -> End:
    """A topic is deleted and created again with the same name."""
    topics = list(hand.world.variety.topics)
    if not topics:
        return None
    topic = hand.rng.choice(topics)
    hand.world.kernel.say("somebody", f"deletes topic {topic.name[:20]} and creates it again")
    if _ask(hand, "delete_topics", topic=topic.name) is None:
        return None
    hand.world.kernel.call_later(hand.rng.choice((0.5, 5.0, 90.0)), lambda: _make(hand, topic))
    return None


def _make(hand: Hand, topic: Any) -> None:
    if (
        _ask(
            hand,
            "create_topics",
            topic=topic.name,
            partitions=topic.partitions,
            rf=topic.rf,
            configs={"min.insync.replicas": str(topic.min_isr)},
        )
        is None
    ):
        hand.world.kernel.call_later(20.0, lambda: _make(hand, topic))


def topic_made(hand: Hand) -> End:
    """A new topic, at any moment."""
    name = f"new{hand.rng.randrange(1000)}"
    rf = min(hand.world.variety.brokers, hand.rng.choice((1, 2, 3)))
    hand.world.kernel.say("somebody", f"creates topic {name}", f"RF {rf}")
    _ask(
        hand,
        "create_topics",
        topic=name,
        partitions=hand.rng.choice((1, 4)),
        rf=rf,
        configs={"min.insync.replicas": str(min(2, rf))},
    )
    hand.world.kafka.load_also(name)
    return None


def topics_made_often(hand: Hand) -> End:
    """Another client creates small topics with one replica, one after the other.

    In a kept run all may be on one broker, of which a disk must be gone when this ends; if there are many topics, the oldest are deleted.
    """
    world, ended = hand.world, [False]
    told = hand.told

    def make(number: int) -> None:
        if ended[0] or number >= int(told.get("count", _MOST_TOPICS)):
            return
        name = f"small{number}"
        where = {"assignments": [[told["broker"]]]} if "broker" in told else {"partitions": 1, "rf": 1}
        _ask(hand, "create_topics", topic=name, configs={"min.insync.replicas": "1"}, **where)
        world.kafka.load_also(name)
        if number >= _MOST_TOPICS:
            _ask(hand, "delete_topics", topic=f"small{number - _MOST_TOPICS}")
        world.kernel.call_later(float(told.get("pause", 2.0)), lambda: make(number + 1))

    world.kernel.say("somebody", "creates topics with one replica, one after the other")
    make(0)

    def end() -> None:
        ended[0] = True
        if "leaves" in told:
            world.judge.left(int(told["broker"]), told["leaves"])

    return end


# --- changes of the spec ----------------------------------------------------------------------------------------------


def _edit(hand: Hand, why: str, change: Callable[[Json], None]) -> None:
    live = hand.world.cluster()
    if live is None:
        return
    spec = json.loads(json.dumps(live["spec"]))
    change(spec)
    hand.world.kernel.say("person", f"changes the spec: {why}")
    hand.world.api.put({**live, "spec": spec}, manager="person")
    hand.world.asked = spec


def config_changed(hand: Hand) -> End:
    """A setting that requires a restart of all brokers."""
    value = hand.rng.choice((10, 12, 20))

    def change(spec: Json) -> None:
        spec.setdefault("config", {})["queued.max.requests"] = str(500 + value)

    _edit(hand, f"queued.max.requests={500 + value}", change)
    return None


def config_refused(hand: Hand) -> End:
    """A setting that Kafka rejects."""

    def change(spec: Json) -> None:
        spec.setdefault("config", {})["num.network.threads"] = "many"

    def back(spec: Json) -> None:
        spec.get("config", {}).pop("num.network.threads", None)

    _edit(hand, "num.network.threads=many", change)
    return lambda: _edit(hand, "num.network.threads as before", back)


def more_brokers(hand: Hand) -> End:
    """The pool gets one more broker."""
    hand.world.more_nodes(1)

    def change(spec: Json) -> None:
        spec["brokerPools"][0]["replicas"] += 1

    _edit(hand, "one broker more", change)
    return None


def fewer_brokers(hand: Hand) -> End:
    """The pool gets one broker less."""

    def change(spec: Json) -> None:
        spec["brokerPools"][0]["replicas"] = max(1, spec["brokerPools"][0]["replicas"] - 1)

    _edit(hand, "one broker less", change)
    return None


def more_disks(hand: Hand) -> End:
    """Each broker gets one more disk."""

    def change(spec: Json) -> None:
        disks = spec["brokerPools"][0]["disks"]
        if disks.get("all"):
            disks.pop("maxCount", None)
        else:
            disks["count"] += 1

    hand.world.more_slots(1)
    _edit(hand, "one disk more for each broker", change)
    return None


def fewer_disks(hand: Hand) -> End:
    """Each broker gets one disk less."""

    def change(spec: Json) -> None:
        disks = spec["brokerPools"][0]["disks"]
        if disks.get("all"):
            most = max((len(b["spec"]["disks"]) for b in hand.world.api.all("KafkaBroker")), default=2)
            disks["maxCount"] = max(1, most - 1)
        else:
            disks["count"] = max(1, disks["count"] - 1)

    _edit(hand, "one disk less for each broker", change)
    return None


def disk_drained(hand: Hand) -> End:
    """A user requests to drain one disk, and withdraws the request later."""
    broker = hand.broker()
    found = hand.world.api.get("KafkaBroker", names.broker_name(SAMPLE, broker))
    if found is None or len(found["spec"].get("disks") or ()) < 2:
        return None
    disk = hand.told.get("disk", hand.rng.choice(found["spec"]["disks"])["name"])
    hand.world.kernel.say("person", f"requests to drain {disk} of broker {broker}")
    hand.world.ask_for(broker, disk, "Drained")
    return lambda: hand.world.ask_for(broker, disk, None)


def broker_stopped(hand: Hand) -> End:
    """A user stops a broker for maintenance."""
    found = hand.world.api.get("KafkaBroker", names.broker_name(SAMPLE, hand.broker()))
    if found is None:
        return None
    hand.world.kernel.say("person", f"sets spec.maintenance.stopped of {found['metadata']['name']}")
    hand.world.api.change(found, {"spec": {"maintenance": {"stopped": True}}}, manager="person")

    def end() -> None:
        live = hand.world.api.get("KafkaBroker", found["metadata"]["name"])
        if live is not None:
            hand.world.kernel.say("person", f"resets spec.maintenance.stopped of {found['metadata']['name']}")
            hand.world.api.change(live, {"spec": {"maintenance": {"stopped": False}}}, manager="person")

    return end


# --- mistakes and unrequested actions of users ------------------------------------------------------------------------


def acceptance_copied(hand: Hand) -> End:
    """A user sets the token for one lost disk for other disks, too, as soon as `DataAtRisk` names one; the loss of those was not accepted."""
    world = hand.world

    def paste() -> None:
        live = world.cluster()
        risk = [
            c for c in (live or {}).get("status", {}).get("conditions") or () if c["type"] == "DataAtRisk"
        ]
        words = re.findall(r'KafkaBroker (\S+): \{"name": "([^"]+)", "token": "([^"]+)"', str(risk))
        if not words:
            if not world.trouble_over:
                world.kernel.call_later(10.0, paste)
            return
        owner, disk, word = hand.rng.choice(words)
        others = [
            (int(broker["spec"]["id"]), each["name"])
            for broker in world.api.all("KafkaBroker")
            for each in broker["spec"].get("disks") or ()
            if (broker["metadata"]["name"], each["name"]) != (owner, disk)
        ]
        for broker, name in hand.rng.sample(others, min(len(others), hand.rng.choice((1, 2, 9)))):
            world.kernel.say(
                "person", f"sets the token for {disk} of {owner} for {name} of broker {broker}", word
            )
            world.accept_loss(broker, name, word)

    paste()
    return None


def loss_accepted(hand: Hand) -> End:
    """A user accepts the loss of one dead disk while other disks still have faults."""
    world, broker, disk = hand.world, hand.broker(), hand.told["disk"]
    name = names.broker_name(SAMPLE, broker)

    def accept() -> None:
        conditions = ((world.cluster() or {}).get("status") or {}).get("conditions") or ()
        risk = str([c for c in conditions if c["type"] == "DataAtRisk"])
        found = re.search(rf'KafkaBroker {name}: \{{"name": "{disk}", "token": "([^"]+)"', risk)
        if found:
            world.kernel.say("person", f"accepts the loss of {disk} of {name}", found[1])
            world.accept(broker, found[1].split(":", maxsplit=1)[0], found[1])
            world.accept_loss(broker, disk, found[1])
        elif not world.trouble_over:
            world.kernel.call_later(10.0, accept)

    accept()
    return None


def in_and_out(hand: Hand) -> End:
    """The pool gets one broker less, and one more again after a while: the broker id is reused, if it was released by then."""

    def by(change: int) -> Callable[[Json], None]:
        def edit(spec: Json) -> None:
            pool = spec["brokerPools"][0]
            pool["replicas"] = max(1, pool["replicas"] + change)

        return edit

    live = hand.world.cluster()
    if live is None or live["spec"]["brokerPools"][0]["replicas"] < 2:
        return None
    _edit(hand, "one broker less, for a while", by(-1))
    return lambda: _edit(hand, "one broker more again", by(1))


def zone_label_changed(hand: Hand) -> End:
    """The zone label of a node changes while a broker runs on it."""
    node = hand.node()
    live = hand.world.api.get("Node", node.name)
    zones = sorted({n.zone for n in hand.world.kubelets.nodes.values()} | {"zone-z"})
    zone = hand.told.get("zone", hand.rng.choice([z for z in zones if z != node.zone]))
    if live is None:
        return None

    def label(value: str) -> None:
        found = hand.world.api.get("Node", node.name)
        if found is not None:
            hand.world.kernel.say("person", f"labels {node.name} with zone {value}")
            labels = {"topology.kubernetes.io/zone": value or None}
            hand.world.api.change(found, {"metadata": {"labels": labels}}, manager="person")

    label(zone)
    return lambda: label(node.zone)


def more_replicas_by_others(hand: Hand) -> End:
    """Another tool adds a replica to each partition of a topic."""
    found = _partitions(hand)
    if not found:
        return None
    topic = hand.told.get("topic", hand.rng.choice(found)["topic"])
    live = [b for b in range(hand.world.variety.brokers) if hand.world.answers(b)]
    wanted: dict[tuple[str, int], list[int]] = {}
    for p in found:
        others = [b for b in live if b not in p["replicas"]]
        if p["topic"] == topic and others:
            wanted[topic, p["partition"]] = [*p["replicas"], hand.rng.choice(others)]
    if wanted:
        hand.world.kernel.say(
            "somebody", f"adds a replica to {len(wanted)} partitions of {topic[:20]}", str(wanted)[:200]
        )
        _ask(hand, "alter_partition_reassignments", assignments=wanted)
    return None


def claim_resized(hand: Hand) -> End:
    """A user increases the requested size of a claim, if its class allows that; sometimes the volume grows, too."""
    claims = [
        c
        for c in hand.world.api.all("PersistentVolumeClaim")
        if c["metadata"]["name"].startswith("data-disk") and c["spec"].get("volumeName")
    ]
    if not claims:
        return None
    claim = hand.rng.choice(claims)
    volume = hand.world.api.get("PersistentVolume", claim["spec"]["volumeName"])
    slot = hand.world.kubelets.slot_of(claim["metadata"]["name"])
    size = str(3 * hand.world.variety.capacity)
    hand.world.kernel.say("person", f"sets the request of claim {claim['metadata']['name']} to {size} bytes")
    hand.world.api.change(claim, {"spec": {"resources": {"requests": {"storage": size}}}}, manager="person")
    if volume is not None and slot is not None and slot.fs is not None and hand.rng.random() < 0.5:
        hand.world.kernel.say("disk", f"{slot.node}{slot.path} grows", slot.fs.disk)
        slot.fs.capacity = int(size)
        hand.world.api.change(volume, {"spec": {"capacity": {"storage": size}}}, manager="csi")
    return None


KINDS: dict[str, Callable[[Hand], End]] = {
    function.__name__: function
    for function in (
        disk_dies, disk_dies_for_a_while, disk_hangs, disk_hangs_for_good, disk_readonly, disk_slow, two_disks_of_one_broker,
        two_disks_of_two_brokers, disk_pulled, disk_swapped, disks_exchanged, disk_fills, node_off, node_reboots, node_gone, two_nodes_off, clock_jumps,
        operator_clock_jumps, machine_starved, machines_starved, cut_operator_from_kafka, cut_operator_from_node, cut_operator_from_api,
        cut_node_from_api, cut_nodes, cut_node_from_nodes, api_away, api_troubled, kafka_troubled, operator_killed, operator_killed_often,
        operator_stops, agent_killed, agent_gone, broker_killed, controller_killed, object_deleted, claim_and_pod_deleted, label_removed,
        annotation_removed, disk_entry_removed, cluster_applied_again, backup_taken, backup_restored, reassigned_by_others, reassignment_cancelled_by_others,
        topic_made_again, topic_made, topics_made_often, config_changed, config_refused, more_brokers, fewer_brokers, more_disks, fewer_disks, disk_drained,
        broker_stopped, acceptance_copied, loss_accepted, in_and_out, zone_label_changed, more_replicas_by_others, claim_resized,
    )
} | faults_told.KINDS  # fmt: skip
_WEIGHTS = {
    "disk_dies": 8,
    "disk_hangs": 4,
    "disk_swapped": 5,
    "disk_pulled": 4,
    "operator_killed": 3,
    "backup_taken": 3,
    # In kept lives alone: another kind would change all lives that are known by their seeds.
    **dict.fromkeys(faults_told.KINDS, 0),
    "disk_entry_removed": 0,
    "acceptance_copied": 0,
    "loss_accepted": 0,
    "agent_gone": 0,
    "node_gone": 0,
    "in_and_out": 0,
    "zone_label_changed": 0,
    "more_replicas_by_others": 0,
    "claim_resized": 0,
}
_NEEDS_CLUSTER = frozenset(
    {
        "config_changed",
        "config_refused",
        "more_brokers",
        "fewer_brokers",
        "more_disks",
        "fewer_disks",
        "disk_drained",
        "in_and_out",
    }
)
