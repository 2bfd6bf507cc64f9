"""Rules that must hold, judged from acknowledged records, disks and the API server's objects. `spindle` is never asked what is safe."""

import json
from typing import Any

from tests.sim.api import Json, is_ready
from tests.sim.controllers import claims_of
from tests.sim.kafka.state import Part
from tests.sim.kernel import START
from tests.sim.rules_more import MoreRules
from tests.sim.variety import SAMPLE

_BROKER_ROLE = "broker"
_NODE_ID = "spindle.dev/node-id"
_ROLE = "spindle.dev/role"
_DIRECTORY = "spindle.dev/directory-id"
_RESERVED = "metadata.annotations['spindle.dev/volume']"  # in the reference of a volume to a claim that did not have it yet
AT_ONCE = 10.0  # seconds within which disks of several machines must stop answering to be certainly one fault
SHORT = 40.0  # seconds for which such a fault is certainly not caused by the disks
SILENT = 420.0  # seconds for which the cluster may deviate from the spec without an entry in status.waiting or an action
# Entries about the state of a cluster that need no action.
STANDING = frozenset(
    {
        "SingleZone",
        "UnevenSpread",
        "ZoneWithoutBrokers",
        "EvenControllerCount",
        "WaitingForBrokers",
        "CordonNotSupported",
        "UncleanElectionsEnabled",
        "Soaking",
    }
)
_THROTTLES = (
    "leader.replication.throttled.replicas", "follower.replication.throttled.replicas", "leader.replication.throttled.rate",
    "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second", "cordoned.log.dirs",
)  # fmt: skip


class Judge:
    """Observes the run, and collects violated rules."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.acted_at = START
        self.told_at = -SILENT  # time of the last event about a status that the API server refuses
        self._amiss_since: float | None = None
        self._told: set[str] = set()
        self.losses: set[Any] = set()
        world.api.watchers.append(self._changed)
        world.api.on_down = self._going_down
        world.kafka.on_reassign = self._reassigned
        world.kafka.on_unregister = self._forgotten
        world.kernel.call_later(30.0, self._look)
        self.more = MoreRules(self)

    def breaks(self, rule: str, what: str) -> None:
        """Record a violation."""
        text = f"({rule}) {what}"
        if text not in self._told:
            self._told.add(text)
            self.world.broken.append(text)
            self.world.kernel.say("judge", text)

    # -- each pass and each minute

    def planned(self, snapshot: Any, made: Any) -> None:
        """Called after a pass was planned."""
        if made.actions:
            self.acted_at = self.world.kernel.now

    def _look(self) -> None:
        world = self.world
        world.kernel.call_later(30.0, self._look)
        self._losses()
        self.more.look()
        amiss = self.amiss()
        if not amiss:
            self._amiss_since = None
            return
        now = world.kernel.now
        self._amiss_since = self._amiss_since or now
        if any(o.leading for o in world.operators) and not world.api.away and not self._waits():
            since = (self._amiss_since, self.acted_at, self.told_at, world.disturbed_at)
            quiet = min(now - each for each in since)
            if quiet > SILENT and not self._moving():
                self.breaks("c", f"for {SILENT:.0f} s nothing happens and nothing waits, although {amiss[0]}")

    def _losses(self) -> None:
        for loss in self.world.kafka.ledger.lost():
            if loss not in self.losses:
                self.losses.add(loss)
                self.breaks("a", f"acknowledged records are lost: {loss}")

    def _waits(self) -> list[Json]:
        status = (self.world.cluster() or {}).get("status") or {}
        found = [w for w in status.get("waiting") or () if w["reason"] not in STANDING]
        for topic in self.world.api.all("KafkaTopic"):
            rows = {c["type"]: c for c in (topic.get("status") or {}).get("conditions") or ()}
            if rows.get("Stalled", {}).get("status") == "True" and rows["Ready"]["reason"] == "InvalidSpec":
                thing = f"KafkaTopic/{topic['metadata']['name']}"
                found.append({"action": "ReconcileTopic", "object": thing, "reason": "InvalidSpec"})
        return found

    def _moving(self) -> bool:
        return bool(self.world.truth("reassignments"))

    # -- single actions

    def _changed(self, event: str, kind: str, obj: Json) -> None:
        if kind == "PersistentVolumeClaim" and event == "DELETED":
            self._claim_gone(obj)
        if kind == "Pod":
            self._started_in_vain(obj)

    def _started_in_vain(self, pod: Json) -> None:
        """No node starts with a setting that its Kafka rejects: that is reported before any action."""
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            over = (container.get("lastState") or {}).get("terminated") or {}
            if "ConfigException" in str(over.get("message")):
                name = pod["metadata"]["name"]
                self.breaks("config", f"{name} was started with a setting that Kafka rejects")

    def _claim_gone(self, claim: Json) -> None:
        """Rule 5: Spindle deletes no claim with replicas on its disk."""
        name = claim["metadata"]["name"]
        if name in self.world.deleted_by_people or not (claim["metadata"].get("labels") or {}).get(
            "spindle.dev/cluster"
        ):
            return
        broker = int(claim["metadata"]["annotations"].get(_NODE_ID, -1))
        directory = claim["metadata"]["annotations"].get(_DIRECTORY)
        for p in self.world.truth("partitions"):
            if broker in p["replicas"] and (p.get("dirs") or {}).get(broker) == directory:
                key = (p["topic"], p["partition"])
                if not self.world.is_given_up(broker, directory, key):
                    self.breaks(
                        "f5",
                        f"claim {name} is deleted while {p['topic'][:20]}-{p['partition']} is assigned to its disk",
                    )

    def _reassigned(self, part: Part, target: list[int]) -> None:
        """Rules 1 and 6: one replica at a time is added or removed, and no empty one is added where it may lead."""
        self.more.reassigned(part, target)
        self._leaves_for_good(part, target)
        coming = [b for b in target if b not in part.replicas]
        going = [b for b in part.replicas if b not in target]
        name = f"{part.topic[:20]}-{part.index}"
        if part.reassigned:
            return  # another client may have changed it since Spindle observed it
        if len(coming) > 1 or len(going) > 1:
            self.breaks("f6", f"{name} is reassigned from {part.replicas} to {target} at once")
        for broker in coming:
            if broker in part.isr or broker in part.elr:
                self.breaks(
                    "f1", f"an empty replica of {name} is added to broker {broker}, which may lead it"
                )

    def _leaves_for_good(self, part: Part, target: list[int]) -> None:
        """Rules 2 and 3: a replica leaves because a KafkaTopic asks for fewer, and no other client meddles."""
        kafka = self.world.kafka
        wished = min(kafka.asked_factors(part.topic), default=99)
        going = [b for b in part.replicas if b not in target]
        if len(going) != len(part.replicas) - len(target) or part.reassigned:
            return
        if not going or part.removing:
            return
        name = f"{part.topic[:20]}-{part.index}"
        if len(target) < wished and self._recorded(part, going[0], "removed"):
            self.breaks(
                "f2", f"{name} is reduced from {part.replicas} to {target}, and {wished} are asked for"
            )
        if len(part.replicas) <= wished or len(part.replicas) < part.rf:
            return
        out = [b for b in target if b not in part.isr]
        # A replica on a dead disk is dropped for a while by other rules, which need the others in sync, too; the disk may answer again meanwhile.
        if out or len(target) < kafka.min_isr(part.topic):
            self.breaks("f2", f"{name} is reduced from {part.replicas} to {target} with {part.isr} in sync")
        racks = {b: found.rack for b, found in kafka.brokers.items()}
        before, after = ({racks.get(b) for b in group} for group in (part.replicas, target))
        fewer = len(after) < min(len(target), len(before))
        if (
            fewer
            and not self._recorded(part, going[0], "shrunk")
            and part.dirs.get(going[0]) in self._healthy_dirs()
        ):
            self.breaks("f3", f"{name} is reduced from {part.replicas} to {target}, on {len(after)} racks")

    def _recorded(self, part: Part, broker: int, what: str) -> bool:
        """Whether the journal says that a replica leaves for good (``removed``), or for a while from a dead or full disk (``shrunk``)."""
        record = self.world.api.get("ConfigMap", f"{SAMPLE}-moves") or {}
        journal = json.loads((record.get("data") or {}).get("journal") or "{}")
        return [part.topic, part.index, broker] in [entry[:3] for entry in journal.get(what, ())]

    def _healthy_dirs(self) -> set[str]:
        """Directory ids of all disks that can be read and written."""
        return {
            str((slot.fs.meta or {}).get("directory.id"))
            for node in self.world.kubelets.nodes.values()
            for slot in node.slots.values()
            if slot.fs is not None and slot.fs.state == "well"
        }

    def _forgotten(self, broker: int) -> None:
        """Rule 5: no broker is unregistered that runs or holds replicas."""
        if self.world.answers(broker):
            self.breaks("f5", f"broker {broker} is unregistered while it runs")
        for p in self.world.truth("partitions"):
            if broker in (*p["replicas"], *p["isr"], *p["elr"]):
                where = f"{p['topic'][:20]}-{p['partition']}"
                self.breaks("f5", f"{where} is on broker {broker}, which is unregistered")

    def _going_down(self, pod: Json, who: str, how: str) -> None:
        """Rule 2, and (b): Spindle takes no broker down if a partition would fall below min.insync.replicas."""
        labels = pod["metadata"].get("labels") or {}
        if (
            who != "spindle-operator"
            or labels.get(_ROLE) != _BROKER_ROLE
            or pod["metadata"].get("deletionTimestamp")
        ):
            return
        run = self.world.kubelets.runs.get(pod["metadata"]["uid"])
        if run is None or not run.kafka:
            return
        cluster = self.world.cluster()
        if cluster is None or cluster["metadata"].get("deletionTimestamp"):
            return  # the user wants all of it to be deleted
        broker = int(labels[_NODE_ID])
        leading = [o for o in self.world.operators if o.leading]
        if leading and not any(self.world.net.linked(o.name, "kafka") for o in leading):
            self.breaks(
                "f8",
                f"{how} of broker {broker}, whose Kafka runs, while the operator cannot query Kafka at all",
            )
        self.more.taken_down(pod, run, broker, how)
        self._alone(run, broker, how)
        self._stalled_together(run, broker, how)
        sick = [fs for fs in run.files.disks.values() if fs is not None and fs.state in ("hung", "slow")]
        for p in self.world.truth("partitions"):
            if pod["metadata"]["uid"] in self.world.let_go:
                self._stays_led(p, broker, how)
            else:
                self._stays_writable(p, broker, how, hung=bool(sick))

    def _stays_led(self, p: Any, broker: int, how: str) -> None:
        """If a user allows a broker's restart, writes may be rejected for a while, but every partition must keep a leader."""
        others = [b for b in p["isr"] if b != broker and self.world.answers(b)]
        if p["leader"] == broker and p["rf"] > 1 and not others:
            self.breaks(
                "b",
                f"{how} of broker {broker}, the only in-sync replica of {p['topic'][:20]}-{p['partition']}, with a user's permission",
            )

    def _alone(self, run: Any, broker: int, how: str) -> None:
        """The only in-sync replica of a partition that is being served is not stopped."""
        for p in self.world.truth("partitions"):
            if p["isr"] != [broker] or p["leader"] != broker:
                continue
            held = next(
                (
                    fs
                    for fs in run.files.disks.values()
                    if fs is not None and ((p["topic"], p["partition"]), "") in fs.logs
                ),
                None,
            )
            if (
                held is not None
                and held.state == "well"
                and self.world.is_pulled(held)
                and not self._accepted(broker)
            ):
                text = f"{how} of broker {broker}, which serves the only in-sync replica of {p['topic'][:20]}-{p['partition']} from a disk that is not mounted any more"
                self.breaks("b", text)
            if held is not None and held.state == "slow" and p["min_isr"] < 2 and p["rf"] > 1:
                text = f"{how} of broker {broker}, the only in-sync replica of {p['topic'][:20]}-{p['partition']}, whose disk is slow and answers"
                self.breaks("b", text)

    def _accepted(self, broker: int) -> bool:
        """Whether a user accepted the loss of a disk of this broker."""
        record = self.world.api.get("KafkaBroker", f"{SAMPLE}-broker-{broker}") or {}
        return bool((record.get("spec") or {}).get("acceptDataLoss"))

    def _stalled_together(self, run: Any, broker: int, how: str) -> None:
        """No broker is stopped for a disk that started to hang at the same time as a disk of another machine."""
        now = self.world.kernel.now

        def young(fs: Any) -> bool:
            return fs is not None and fs.state == "hung" and now - fs.hangs_since < SHORT

        mine = [fs for fs in run.files.disks.values() if young(fs)]
        elsewhere = [
            slot.fs
            for node in (self.world.kubelets.nodes.values() if mine else ())
            for slot in node.slots.values()
            if node is not run.node and young(slot.fs)
        ]
        for fs in mine:
            others = [other for other in elsewhere if abs(other.hangs_since - fs.hangs_since) <= AT_ONCE]
            if others:
                text = f"{how} of broker {broker} for {fs.disk}, which has been hanging for {now - fs.hangs_since:.0f} s, like {others[0].disk} of another machine"
                self.breaks("f9", text)

    def _stays_writable(self, p: Any, broker: int, how: str, *, hung: bool) -> None:
        if broker not in p["isr"] or p["leader"] in (None, -1):
            return
        live = [b for b in p["isr"] if self.world.answers(b) and not self.world.is_stopping(b)]
        least, replicas = p["min_isr"], p["rf"]
        left = [b for b in live if b != broker]
        if hung or len(live) < least or replicas <= least:
            return
        if len(left) < least:
            text = f"{how} of broker {broker} leaves {p['topic'][:20]}-{p['partition']} with {len(left)} in sync of at least {least} ({p['isr']})"
            self.breaks("b", text)

    def started(self, run: Any, broker: int, dirs: dict[str, Any]) -> None:
        """Rules 7 and 15: no two processes on one disk, and no start without a disk that holds replicas of the broker."""
        mine = [fs for fs in dirs.values() if fs is not None]
        for other in self.world.kubelets.runs.values():
            if (
                other is not run
                and other.kafka
                and any(fs is mine_fs for fs in other.files.disks.values() for mine_fs in mine)
            ):
                self.breaks("f7", f"two processes on a log dir of broker {broker}")
        ids = {(fs.meta or {}).get("directory.id") for fs in mine}
        placeholders = any(fs is None or fs.state in ("dead", "hung") for fs in dirs.values())
        if placeholders:
            return
        for p in self.world.truth("partitions"):
            if broker not in p["replicas"]:
                continue
            at = (p.get("dirs") or {}).get(broker)
            key = (p["topic"], p["partition"])
            if (
                at is not None
                and at not in ids
                and self.world.intact(broker, key, at)
                and not self.world.is_given_up(broker, at, key)
                and not (self.world.was_pulled(at) and self._others_have(p, broker))
            ):
                self.breaks(
                    "f15",
                    f"broker {broker} starts without the disk {at} that holds {p['topic'][:20]}-{p['partition']}",
                )

    def _others_have(self, p: Any, broker: int) -> bool:
        """Whether a new disk in place of one that a person pulled out loses nothing: others lead the partition, without this broker."""
        led = p["leader"] not in (None, -1, broker) and self.world.answers(p["leader"])
        return led and p["leader"] in p["isr"] and broker not in p["isr"]

    def left(self, broker: int, disk: str) -> None:
        """(e): a disk that should leave a broker has left it by now, whatever is created on that broker."""
        wanted = f"data-{disk}-{SAMPLE}-{broker}"
        for pod in self.world.api.all("Pod"):
            if wanted in claims_of(pod):
                self.breaks(
                    "e", f"{disk} should leave broker {broker}, and {pod['metadata']['name']} still has it"
                )

    # -- state of the cluster

    def amiss(self) -> list[str]:
        """Deviations from the desired state."""
        world = self.world
        live = world.cluster()
        if live is None:
            return ["the KafkaCluster does not exist"]
        found = []
        pool = live["spec"]["brokerPools"][0]
        pods = {
            p["metadata"]["labels"][_NODE_ID]: p
            for p in world.api.all("Pod")
            if (p["metadata"].get("labels") or {}).get(_ROLE) == _BROKER_ROLE
        }
        well = [i for i, p in pods.items() if is_ready(p)]
        stopped = self._stopped()
        drained = self._drained()
        if len(well) != pool["replicas"] - len(stopped):
            found.append(f"{len(well)} of {pool['replicas']} brokers are ready")
        for number, pod in sorted(pods.items()):
            held = [c for c in claims_of(pod) if "metadata" not in c]
            wanted = self._disks_wanted(pool["disks"], pod)
            if len(held) != wanted - drained.get(int(number), 0):
                found.append(f"broker {number} has {len(held)} of {wanted} disks")
        for broker, errors in sorted(dict(world.truth("offline")).items()):
            found.append(f"broker {broker} has offline log dirs: {', '.join(errors)}")
        found += self._hanging()
        found += self._reserved()
        for key, value in sorted((live["spec"].get("config") or {}).items()):
            other = [b for b, held in sorted(world.kafka.truth_effective(key).items()) if held != value]
            if other:
                found.append(f"broker {other[0]} runs without {key}={value}")
        found += self._partitions()
        return found

    def _disks_wanted(self, disks: Json, pod: Json) -> int:
        """How many disks a broker should have: with ``all``, those that it has and those that are free on its node."""
        if not disks.get("all"):
            return int(disks["count"])
        broker = self.world.api.get("KafkaBroker", pod["metadata"]["name"])
        having = len(broker["spec"]["disks"]) if broker is not None else 0
        free = self.world.controllers.free(pod["spec"].get("nodeName", ""))
        return min(int(disks.get("maxCount", 64)), having + len(free))

    def _stopped(self) -> set[int]:
        """Brokers that a user stopped: that they are in no ISR is as desired."""
        return {
            int(b["spec"]["id"])
            for b in self.world.api.all("KafkaBroker")
            if (b["spec"].get("maintenance") or {}).get("stopped")
        }

    def _drained(self) -> dict[int, int]:
        """Broker → disks that a user requested to drain and that have left it."""
        found = {}
        for broker in self.world.api.all("KafkaBroker"):
            wanted = {
                e["name"]
                for e in (broker["spec"].get("maintenance") or {}).get("disks") or ()
                if e["desiredState"] == "Drained"
            }
            out = [
                d
                for d in broker["spec"].get("disks") or ()
                if d["name"] in wanted and d.get("mode") == "Absent"
            ]
            found[int(broker["spec"]["id"])] = len(out)
        return found

    def _reserved(self) -> list[str]:
        """No volume stays reserved for a claim that does not exist, unless a user keeps it for one."""
        api, found = self.world.api, []
        for volume in api.all("PersistentVolume"):
            ref = volume["spec"].get("claimRef") or {}
            if ref.get("fieldPath") == _RESERVED and api.get("PersistentVolumeClaim", ref["name"]) is None:
                name = volume["metadata"]["name"]
                found.append(f"volume {name} is reserved for claim {ref['name']}, which does not exist")
        return found

    def _hanging(self) -> list[str]:
        """Kafka does not notice a hung disk: its broker stays leader of partitions that cannot be written."""
        return [
            f"{run.name} runs on a hung disk"
            for run in self.world.kubelets.runs.values()
            if run.kafka and any(fs is not None and fs.state == "hung" for fs in run.files.disks.values())
        ]

    def _partitions(self) -> list[str]:
        found = []
        racks, stopped = self.world.racks(), self._stopped()
        for p in self.world.truth("partitions"):
            name = f"{p['topic'][:20]}-{p['partition']}"
            if p["leader"] in (None, -1):
                found.append(f"{name} has no leader")
            elif set(p["replicas"]) - set(p["isr"]) - stopped:
                found.append(f"{name} has {sorted(p['isr'])} in sync of {sorted(p['replicas'])}")
            asked = self.world.kafka.factors.get(p["topic"])
            wanted = asked[0] if asked is not None else p["rf"]
            if len(p["replicas"]) != wanted and (asked is not None or not p.get("reassigned")):
                found.append(f"{name} has {len(p['replicas'])} replicas, not {wanted}")
            on = {racks.get(b) for b in p["replicas"]}
            if len(on) < min(len(p["replicas"]), len(set(racks.values()))) and not p.get("reassigned"):
                found.append(f"{name} is on {len(on)} racks")
        return found

    def unwell(self) -> list[str]:
        """Deviations, waits, and actions in progress."""
        found = self.amiss()
        live = self.world.cluster()
        if live is None:
            return found
        found += [f"waits: {w['action']} {w['object']} {w['reason']}" for w in self._waits()]
        conditions = {c["type"]: c for c in (live.get("status") or {}).get("conditions") or ()}
        for what in ("Ready", "DisksHealthy", "DataAtRisk"):
            wanted = "False" if what == "DataAtRisk" else "True"
            if conditions.get(what, {}).get("status") != wanted:
                found.append(
                    f"{what} is {conditions.get(what, {}).get('status')}: {conditions.get(what, {}).get('message', '')[:200]}"
                )
        if self._moving():
            found.append("replicas are being moved")
        return found

    def end(self) -> None:
        """(d), (e) and rule 10: nothing temporary is left."""
        self.world.kafka.settle()
        self._losses()
        self.more.look()
        status = (self.world.cluster() or {}).get("status") or {}
        for entry in (
            c for c in status.get("conditions") or () if c["type"] in ("Ready", "DataAtRisk", "DisksHealthy")
        ):
            self.world.kernel.say(
                "status", f"{entry['type']} {entry['status']} {entry['reason']}", entry.get("message", "")
            )
        for what in self.unwell():
            self.breaks("e", f"long after the last fault: {what}")
        for name in self.world.truth("epochless"):
            self.breaks("e", f"long after the last move: the log of the leader of {name} lacks its epoch")
        for where, key, value in self.world.truth("settings"):
            if key in _THROTTLES:
                self.breaks("f10", f"{key} of {where} is still set: {value[:60]}")


def text_of(obj: Json) -> str:
    """``Kind/name``."""
    return f"{obj['kind']}/{obj['metadata']['name']}"
