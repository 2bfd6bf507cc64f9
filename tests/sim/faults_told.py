"""Faults of kept runs only: random runs do not have them, because another kind of fault would change all runs that are known by their seeds."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.api import names
from spindle.model.times import stamp
from tests.sim.api import NAMESPACE, Json
from tests.sim.disks import FileSystem, Key, Log
from tests.sim.kernel import START
from tests.sim.rules_more import contents
from tests.sim.variety import SAMPLE
from tests.sim.watches import Watches

if TYPE_CHECKING:
    from tests.sim.faults import Hand
    from tests.sim.kafka.state import Process

End = Callable[[], None] | None
_AT_ONCE = 3  # passes that a proposal with leaders only may take, and one in which other changes are recorded
_LONG = 180.0  # seconds after which a broker must have stopped for a disk that hangs, whatever else speaks against it
_SIDES = 1  # another pass, triggered by changes of others


def leaders_proposed(hand: "Hand") -> End:
    """An approved proposal with new leaders and no moves; the operator completes it within a few passes."""
    world = hand.world
    topic = str(hand.told["topic"])
    parts = [p for p in world.truth("partitions") if p["topic"] == topic]
    leaders = [
        {
            "topic": topic,
            "partition": p["partition"],
            "broker": next(b for b in p["replicas"] if b != p["leader"]),
        }
        for p in parts[: int(hand.told["count"])]
    ]
    now = world.kernel.now
    spec = {
        "cluster": SAMPLE, "inputHash": "a" * 64, "approved": "a" * 64, "expires": stamp(now + 5000), "moves": [], "leaders": leaders,
    }  # fmt: skip
    owner = world.cluster()["metadata"]
    reference = {"apiVersion": names.API_VERSION, "kind": "KafkaCluster", "name": SAMPLE, "uid": owner["uid"]}
    meta = {
        "name": "leaders",
        "namespace": NAMESPACE,
        "ownerReferences": [reference],
        "labels": {names.LABEL_CLUSTER: SAMPLE},
    }
    passes = sum(operator.passes for operator in world.operators)
    world.kernel.say("person", f"approves a proposal of {len(leaders)} leaders and no moves")
    world.api.put({"apiVersion": names.API_VERSION, "kind": "KafkaRebalance", "metadata": meta, "spec": spec})
    over: list[str] = []

    def changed(_: str, kind: str, obj: Json) -> None:
        if kind == "KafkaRebalance" and (obj.get("status") or {}).get("phase") == "Done" and not over:
            took = sum(operator.passes for operator in world.operators) - passes
            over.append(f"{took} passes and {world.kernel.now - now:.1f} s")
            world.kernel.say("person", "sees that the proposal is done", over[0])
            if took > _AT_ONCE + _SIDES:
                world.judge.breaks("e", f"a proposal of {len(leaders)} leaders and no moves took {over[0]}")

    world.api.watchers.append(changed)
    return (
        None
        if hand.told.get("lasts")
        else lambda: None if over else world.judge.breaks("e", "a proposal with leaders only is not done")
    )


def record_written_between(hand: "Hand") -> End:
    """Another operator, which is the leader by now, writes a broker's record between this operator's read and its write of how the broker starts."""
    world, name = hand.world, names.broker_name(SAMPLE, hand.broker())
    apply, written = world.api._apply, list[int]()

    def between(kind: Any, key: Any, live: Any, body: Json, manager: str, sub: Any) -> Json:
        record = kind.kind == "KafkaBroker" and key[1] == name and not sub and live is not None
        if record and not written and _modes(body) != _modes(live):
            generation = int(live["spec"]["logDirs"]["generation"]) + 5
            written.append(generation)
            world.kernel.say(
                "operator",
                f"another operator writes the record of {name}",
                f"log dirs of generation {generation}",
            )
            live = world.api.change(
                live, {"spec": {"logDirs": {"generation": generation}}}, manager="spindle-operator"
            )
        try:
            made: Json = apply(kind, key, live, body, manager, sub)
        finally:
            now = world.api.get("KafkaBroker", name)
            if written and now is not None and int(now["spec"]["logDirs"]["generation"]) < written[0]:
                world.judge.breaks(
                    "f15",
                    f"the record of {name}, which another operator wrote a moment before, is overwritten",
                )
        return made

    world.api._apply = between
    return None


def _modes(broker: Json) -> list[str]:
    return [str(disk.get("mode")) for disk in broker["spec"].get("disks") or ()]


def config_opens(hand: "Hand") -> End:
    """A user sets something that would admit clients without authentication."""
    world, key, value = hand.world, str(hand.told["key"]), str(hand.told["value"])
    live = world.cluster()
    spec = json.loads(json.dumps(live["spec"]))
    spec.setdefault("config", {})[key] = value
    world.kernel.say("person", f"changes the spec: {key}={value}")
    world.api.put({**live, "spec": spec}, manager="person")
    return None


def controllers_swapped(hand: "Hand") -> End:
    """Controllers' disks are replaced by blank ones, and their pods deleted; after a while the old disks are put back."""
    world, back = hand.world, []
    for index in hand.told["controllers"]:
        node_id = names.controller_id(index)
        slot = world.kubelets.slot_of(names.claim_name(SAMPLE, node_id, "metadata"))
        pod = world.api.get("Pod", names.controller_pod(SAMPLE, node_id))
        if slot is None or slot.fs is None or pod is None:
            continue
        old = slot.fs
        slot.fs = world.kubelets.new_disk(old.capacity)
        world.pulled.append(old)
        back.append((slot, old))
        world.kernel.say(
            "person",
            f"swaps the disk of {pod['metadata']['name']} for a blank one",
            f"{old.disk}, now {slot.fs.disk}",
        )
        world.api.remove(pod)
    return None


def strangers_come(hand: "Hand") -> End:
    """Objects of other owners are in the namespace, some under names that the next broker needs, some with the cluster's label."""
    world = hand.world
    number = len(world.api.all("KafkaBroker"))
    ours = {names.LABEL_CLUSTER: SAMPLE}
    volume = {
        "storageClassName": "standard",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    rebalance = {"cluster": SAMPLE, "inputHash": "b" * 64, "expires": stamp(START + 1e6), "moves": []}
    made: list[tuple[str, str, str, Mapping[str, str], Mapping[str, Any]]] = [
        (
            "v1",
            "PersistentVolumeClaim",
            names.claim_name(SAMPLE, number, "disk0"),
            {},
            {"spec": volume, "status": {"phase": "Pending"}},
        ),
        ("v1", "ConfigMap", names.config_map(SAMPLE, number), {}, {"data": {"key": "value"}}),
        ("v1", "Secret", names.tls_secret(SAMPLE, number), ours, {"data": {"key": "dmFsdWU="}}),
        ("v1", "ConfigMap", "notes", ours, {"data": {"key": "value"}}),
        ("v1", "Service", f"{SAMPLE}-other", ours, {"spec": {"selector": {"app": "other"}}}),
        (
            "v1",
            "Pod",
            "other-0",
            ours,
            {"spec": {"volumes": [], "containers": []}, "status": {"phase": "Running"}},
        ),
        (names.API_VERSION, "KafkaRebalance", "others", ours, {"spec": rebalance}),
    ]
    for version, kind, name, labels, body in made:
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        put = world.api.put(
            {"apiVersion": version, "kind": kind, "metadata": meta, **body}, manager="somebody"
        )
        world.judge.more.strangers[put["metadata"]["uid"]] = f"{kind} {name}"
    world.kernel.say(
        "somebody", f"creates {len(made)} objects, three of them under names that broker {number} needs"
    )
    return None


def foreign_disk(hand: "Hand") -> End:
    """A disk of another cluster is put into the slot of a lost disk of a broker; it must not be changed."""
    world, found = hand.world, hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, slot = found
    old = slot.fs
    assert old is not None
    old.state = "dead"
    slot.fs = fs = world.kubelets.new_disk(old.capacity)
    ids = {"cluster.id": "O" * 22, "node.id": "7", "directory.id": "D" * 22}
    fs.meta = ids
    fs.identity = {
        **(old.identity or {}),
        "clusterId": ids["cluster.id"],
        "nodeId": 7,
        "directoryId": ids["directory.id"],
    }
    fs.files["somebody"] = "else"
    fs.logs[("theirs", 0), ""] = Log("another topic", [(0, record) for record in range(5)])
    world.judge.more.foreign.append((fs, contents(fs)))
    world.kernel.say("person", f"puts {fs.disk}, a disk of another cluster, in the place of {what}", old.disk)
    world.kafka_disk_changed(old)
    return None


def new_disk_hangs(hand: "Hand") -> End:
    """A new disk stops answering for good between its inspection and its format; some time later the pod of its broker is deleted."""
    world, broker, disk = hand.world, hand.broker(), str(hand.told["disk"])
    name, done = names.broker_name(SAMPLE, broker), list[str]()

    def delete() -> None:
        pod = world.api.get("Pod", name)
        if pod is not None and pod["metadata"]["uid"] in done:
            world.kernel.say("person", f"deletes pod {name}")
            world.api.remove(pod)

    def changed(_: str, kind: str, obj: Json) -> None:
        if kind != "Pod" or obj["metadata"]["name"] != name or done:
            return
        slot = world.kubelets.slot_of(names.claim_name(SAMPLE, broker, disk))
        clearances = json.loads((obj["metadata"].get("annotations") or {}).get(names.ANN_CLEARANCE) or "[]")
        cleared = disk in [each["disk"] for each in clearances]
        if cleared and slot is not None and slot.fs is not None and slot.fs.meta is None:
            done.append(obj["metadata"]["uid"])
            slot.fs.state, slot.fs.hangs_since = "hung", world.kernel.now
            world.kernel.say("disk", f"{disk} of broker {broker} hangs before it is formatted", slot.fs.disk)
            world.kernel.call_later(float(hand.told["deleted"]), delete)

    world.api.watchers.append(changed)
    return None


def disk_hangs_behind_memory(hand: "Hand") -> End:
    """A disk answers nothing any more, but appends go into the memory of its node: XFS with few records, for minutes."""
    found = hand.slot()
    if found is None or found[1].fs is None:
        return None
    what, fs = found[0], found[1].fs
    fs.state, fs.buffers, fs.hangs_since = "hung", True, hand.world.kernel.now
    world, kafka = hand.world, hand.world.kafka
    world.kernel.say("disk", f"{what} hangs permanently; appends go into memory", fs.disk)

    def grow() -> None:
        led = [p for p in kafka.parts.values() if _leads_from(kafka.process_of(p.leader), p.key, fs)]
        for part in led:
            kafka.write(part, acks_all=True, most=1000)
        if led:
            world.kernel.call_later(float(hand.told["every"]), grow)

    def judge() -> None:
        if any(_leads_from(kafka.process_of(p.leader), p.key, fs) for p in kafka.parts.values()):
            world.judge.breaks(
                "e", f"{what} has been hanging for {_LONG:.0f} s, and its broker still leads from it"
            )

    grow()
    world.kernel.call_later(_LONG, judge)
    return None


def _leads_from(process: "Process | None", key: Key, fs: FileSystem) -> bool:
    held = process.where(key) if process is not None else None
    return held is not None and held[1] is fs


def api_forbids(hand: "Hand") -> End:
    """Requests of one kind get an error for a while: missing rights, a quota, a policy, or an error of the server."""
    net, rule = hand.world.net, (str(hand.told["verb"]), str(hand.told["kind"]))
    status = int(hand.told.get("status", 403))
    net.refused[rule] = status
    hand.world.kernel.say("api", f"answers {status} to each {rule[0]} of {rule[1]}")

    def end() -> None:
        net.refused.pop(rule, None)
        hand.world.kernel.say("api", f"answers each {rule[0]} of {rule[1]} again")

    return end


def sharing_ends(hand: "Hand") -> End:
    """Brokers may no longer share a node; the pods of a node with several of them are deleted: only one can come back, on the node of its volumes."""
    world = hand.world
    pods = [pod for pod in world.api.all("Pod") if pod["metadata"]["name"].startswith(f"{SAMPLE}-broker-")]
    nodes = [pod["spec"].get("nodeName") for pod in pods]
    node = next(name for name in nodes if nodes.count(name) > 1)
    live = world.cluster()
    world.kernel.say("person", f"changes the spec: no shared nodes, and deletes the pods of {node}")
    world.asked = {**live["spec"], "scheduling": {"sharedNodes": False}}
    world.api.put({**live, "spec": world.asked}, manager="person")
    for pod in pods:
        if pod["spec"].get("nodeName") == node:
            world.api.remove(pod)
    return None


def operator_caches(hand: "Hand") -> End:
    """From now on the operators read from watches, as they do in reality. Later the watches no longer report some kinds, and nobody notices."""
    world = hand.world
    watches = world.watches = Watches(world.kernel, world.api, float(hand.told.get("delay", 0.05)))
    world.kernel.say("operator", "reads from watches")
    for operator in world.operators:
        operator.kill(again_in=1.0)

    event = world.event

    def reported(told: Any) -> None:
        if told.reason in hand.told["never"]:
            world.judge.breaks(
                "f8", f"{told.reason} is reported, which is true of an old state only: {told.message}"
            )
        event(told)

    world.event = reported

    def lose() -> None:
        watches.lost |= set(hand.told["lost"])
        world.kernel.say("api", f"does not report changes of {', '.join(sorted(watches.lost))}")

    world.kernel.call_later(float(hand.told["after"]), lose)

    def end() -> None:
        watches.lost.clear()
        world.kernel.say("api", "reports all changes again")

    return end


def replicas_edited(hand: "Hand") -> End:
    """Each topic of the load gets a KafkaTopic, and a person changes its replication factor now and then."""
    world, ended = hand.world, [False]
    topics = list(world.variety.topics)
    for topic in topics:
        world.ask_factor(topic.name, topic.rf)

    def edit() -> None:
        if ended[0]:
            return
        topic = hand.rng.choice(topics)
        wish = hand.rng.randint(1, min(5, world.variety.brokers + 1))
        if "to" in hand.told:
            wish = hand.told["to"][len(made) % len(hand.told["to"])]
        made.append(wish)
        world.kernel.say("person", f"asks for {wish} replicas of {topic.name[:20]}")
        world.ask_factor(topic.name, wish)
        world.kernel.call_later(float(hand.told["every"]) * (0.2 + 1.6 * hand.rng.random()), edit)

    made: list[int] = []
    world.kernel.call_later(float(hand.told["every"]), edit)

    def end() -> None:
        ended[0] = True
        world.kernel.say("person", "changes no replication factor any more")

    return end


def volumes_unlisted(hand: "Hand") -> End:
    """For a while after each reservation, lists of volumes lack the volume, and nobody notices; in the end none may be reserved for nothing."""
    world, seconds, since, read = (
        hand.world,
        float(hand.told["for"]),
        dict[str, float](),
        hand.world.api._read,
    )

    def reserved(volume: Json) -> bool:
        ref = volume["spec"].get("claimRef")
        return bool(ref) and not ref.get("uid")

    def listed(volume: Json) -> bool:
        name, now = volume["metadata"]["name"], world.kernel.now
        if reserved(volume) and name not in since:
            since[name] = now
            world.kernel.say("api", f"omits volume {name} from its lists", f"for {seconds:.0f} s")
        return not reserved(volume) or now - since[name] > seconds

    def partial(kind: Any, namespace: str | None, name: str | None, request: Any) -> Json:
        answer: Json = read(kind, namespace, name, request)
        if kind.kind != "PersistentVolume" or name is not None:
            return answer
        return {**answer, "items": [volume for volume in answer["items"] if listed(volume)]}

    def end() -> None:
        left = [v["metadata"]["name"] for v in world.api.all("PersistentVolume") if reserved(v)]
        if left or not since:
            world.judge.breaks(
                "e",
                f"of {len(since)} volumes that were not listed for a while, these are reserved for nothing: {left}",
            )

    world.api._read = partial
    return end


KINDS: dict[str, Callable[["Hand"], End]] = {
    function.__name__: function
    for function in (
        leaders_proposed, record_written_between, config_opens, controllers_swapped, strangers_come, foreign_disk, api_forbids, new_disk_hangs,
        disk_hangs_behind_memory,
        sharing_ends, operator_caches, replicas_edited, volumes_unlisted,
    )
}  # fmt: skip
