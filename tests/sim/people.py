"""The simulated user: reads `status.waiting` now and then, and follows `unblockedBy`."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from spindle.api import names
from tests.sim import faults
from tests.sim.api import NAMESPACE, Json
from tests.sim.variety import SAMPLE, cluster

EVERY = 45.0  # seconds between two reads of the status
PATIENCE = 90.0  # seconds for which an entry must exist before the user follows it
NEARLY_FULL = 0.8  # usage of a disk above which a user who is asked for space frees some
_LOSS = re.compile(
    r'spec\.acceptDataLoss\.disks of KafkaBroker (\S+): \{"name": "([^"]+)", "token": "([^"]+)"\}'
)


@dataclass(frozen=True)
class Wait:
    """One entry of ``status.waiting``."""

    action: str
    object: str
    reason: str
    message: str
    unblocked_by: str

    @property
    def parts(self) -> list[str]:
        """Parts of ``Kind/name/disk``."""
        return self.object.split("/")

    @property
    def broker(self) -> int | None:
        """The broker of the entry."""
        found = re.search(rf"{SAMPLE}-broker-(\d+)", self.object) or re.search(
            rf"data-disk\d+-{SAMPLE}-(\d+)", self.object
        )
        return int(found[1]) if found else None

    @property
    def disk(self) -> str | None:
        """The disk of the entry."""
        found = re.search(r"(disk\d+|metadata)", self.object)
        return found[1] if found else None


class Person:
    """A user with patience."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.done: dict[tuple[str, ...], float] = {}
        self.acted_at = 0.0

    def begin(self) -> None:
        """Start reading."""
        self.world.kernel.call_later(EVERY * (0.5 + self.world.rng.random()), self._look)

    def _look(self) -> None:
        self.world.kernel.call_later(EVERY * (0.5 + self.world.rng.random()), self._look)
        live = self.world.cluster()
        if live is None or self.world.api.away:
            return
        for entry in (live.get("status") or {}).get("waiting") or ():
            wait = Wait(
                entry["action"], entry["object"], entry["reason"], entry["message"], entry["unblockedBy"]
            )
            key = (wait.action, wait.object, wait.reason)
            since = self.world.told.get(key, self.world.kernel.now)
            if self.world.kernel.now - max(since, self.done.get(key, 0.0)) < PATIENCE:
                continue
            way = WAYS.get(wait.reason)
            if way is None:
                self.world.judge.breaks("d", f"there is no action for {wait.reason}")
                continue
            self.done[key] = self.world.kernel.now
            if wait.reason in self.world.plot.unaided:
                self.world.judge.breaks("d", f"a user must resolve {wait.reason} of {wait.object}")
            way(self, wait)
        self._at_risk(live)
        self._node_gone()
        self._topics()

    def say(self, what: str, wait: Wait | None = None) -> None:
        """Add the action and its reason to the story."""
        self.acted_at = self.world.kernel.now
        self.world.kernel.say("person", what, f"{wait.reason}: {wait.unblocked_by}" if wait else "")

    # -- actions

    def nothing(self, wait: Wait) -> None:
        """Spindle, Kafka, or time resolves it."""

    def slot(self, wait: Wait) -> Any:
        """The slot of the entry's disk."""
        found = re.search(rf"{SAMPLE}-controller-(\d+)", wait.object)
        if wait.broker is None and wait.disk != "metadata" and not found:
            return None
        node = names.controller_id(int(found[1])) if found else wait.broker
        return self.world.kubelets.slot_of(names.claim_name(SAMPLE, node or 0, wait.disk or "metadata"))

    def replace_disk(self, wait: Wait) -> None:
        """Put a new disk into the slot, if the current one is unhealthy, or must not be used any more."""
        slot = self.slot(wait)
        if slot is None:
            return
        if (
            slot.fs is not None
            and slot.fs.state == "well"
            and slot.fs.meta is None
            and not slot.fs.files.get("somebody")
        ):
            return  # the slot has a new one already
        old = slot.fs
        if old is not None:
            self.world.pulled.append(old)
        slot.fs = self.world.kubelets.new_disk(
            old.capacity if old is not None else self.world.variety.capacity
        )
        self.say(
            f"puts a new disk {slot.fs.disk} into {slot.node}{slot.path} for {old.disk if old else 'none'}",
            wait,
        )
        if old is not None and old.state == "hung":
            old.state = "dead"  # pending requests to a pulled disk get an error
        if old is not None:
            self.world.kafka_disk_changed(old)

    def last_disk(self, wait: Wait) -> None:
        """Put a new disk into the slot that the entry names, never into that of the broker's last disk; otherwise withdraw the request."""
        found = re.search(r"slot of (disk\d+)", wait.unblocked_by)
        if found:
            thing = f"{wait.parts[0]}/{wait.parts[1]}/{found[1]}"
            self.replace_disk(Wait(wait.action, thing, wait.reason, wait.message, wait.unblocked_by))
        elif "a slot" in wait.unblocked_by:
            self.replace_disk(wait)
        elif wait.broker is not None and wait.disk:
            self.say(f"withdraws the request to drain {wait.disk} of broker {wait.broker}", wait)
            self.world.ask_for(wait.broker, wait.disk, None)

    def put_back(self, wait: Wait) -> None:
        """Put the slot's original disk back; a new one only if it is lost."""
        slot = self.slot(wait)
        broker = (
            self.world.api.get("KafkaBroker", names.broker_name(SAMPLE, wait.broker))
            if wait.broker is not None
            else None
        )
        wanted = next(
            (
                d["directoryId"]
                for d in (broker or {}).get("spec", {}).get("disks") or ()
                if d["name"] == wait.disk
            ),
            None,
        )
        if controller := re.search(rf"{SAMPLE}-controller-(\d+)", wait.object):
            wanted = self._controller_disk(names.controller_id(int(controller[1])))
        if slot is None or wanted is None:
            self.replace_disk(wait)
            return
        if slot.fs is not None and (slot.fs.meta or {}).get("directory.id") == wanted:
            if slot.fs.state == "readonly":
                self._remount(slot, wait)
            elif slot.fs.state != "well":
                self.replace_disk(wait)
            else:
                self._more_room(wait, [slot])
            return
        for fs in self.world.pulled:
            if (fs.meta or {}).get("directory.id") == wanted and fs.state in ("well", "readonly"):
                self.world.pulled.remove(fs)
                if slot.fs is not None:
                    self.world.pulled.append(slot.fs)
                slot.fs = fs
                self.say(f"puts {fs.disk} back into {slot.node}{slot.path}", wait)
                if fs.state == "readonly":
                    self._remount(slot, wait)
                self.delete_pod(wait)
                return
        for node in self.world.kubelets.nodes.values():
            for other in node.slots.values():
                if (
                    other is not slot
                    and other.fs is not None
                    and (other.fs.meta or {}).get("directory.id") == wanted
                ):
                    slot.fs, other.fs = other.fs, slot.fs
                    self.say(f"exchanges {slot.node}{slot.path} and {other.node}{other.path}", wait)
                    return
        self.replace_disk(wait)

    def _controller_disk(self, node_id: int) -> str | None:
        """The directory id on a controller's claim."""
        claim = self.world.api.get("PersistentVolumeClaim", names.claim_name(SAMPLE, node_id, "metadata"))
        notes = ((claim or {}).get("metadata") or {}).get("annotations") or {}
        return notes.get(names.ANN_DIRECTORY_ID)

    def _remount(self, slot: Any, wait: Wait) -> None:
        """Remount a read-only disk read-write: every record on it can be read, so it is not lost."""
        slot.fs.state = "well"
        self.say(f"mounts {slot.fs.disk} in {slot.node}{slot.path} read-write again", wait)
        self.world.kafka_disk_changed(slot.fs)

    def begin_anew(self, wait: Wait) -> None:
        """Put a disk back that was only pulled; if all are lost, delete the cluster with its claims and apply it again."""
        world = self.world
        held = [
            (int(broker["spec"]["id"]), disk["name"], disk["directoryId"])
            for broker in world.api.all("KafkaBroker")
            for disk in broker["spec"].get("disks") or ()
        ]
        alive = [(broker, disk) for broker, disk, directory in held if world.disk_alive(directory)]
        for broker, disk in alive:
            thing = f"KafkaBroker/{names.broker_name(SAMPLE, broker)}/{disk}"
            self.put_back(Wait(wait.action, thing, wait.reason, wait.message, wait.unblocked_by))
        live = world.cluster()
        if alive or live is None or live["metadata"].get("deletionTimestamp") or not world.trouble_over:
            return
        if retained := self._retained(wait):
            self._use_retained(live, dict(retained), wait)
            return
        self.say("deletes the cluster with its claims, to recreate it", wait)
        for broker, _, directory in held:
            world.accept(broker, directory, "all of it")
        spec = live["spec"]
        world.api.change(live, {"spec": {"deleteClaims": True}}, manager="person")
        world.api.remove(world.cluster())
        faults.when_gone(world, lambda: faults.apply(world, spec, "anew"))

    def _use_retained(self, live: Json, volumes: dict[str, str], wait: Wait) -> None:
        """Apply the cluster again with restored claims of the volumes that former claims left."""
        world = self.world
        self.say("deletes the cluster, to use retained volumes again", wait)
        world.api.remove(live)

        def remove_blank() -> None:
            for name in volumes:
                if (claim := world.api.get("PersistentVolumeClaim", name)) is not None:
                    world.deleted_by_people.add(name)
                    world.api.remove(claim)
            world.kernel.call_later(20.0, restore)

        def restore() -> None:
            for name, volume in volumes.items():
                self._restore_claim(name, world.claim_of[volume], world.api.get("PersistentVolume", volume))
            faults.apply(world, live["spec"], "with the retained volumes")

        faults.when_gone(world, remove_blank)

    def delete_pod(self, wait: Wait) -> None:
        """Stop and start the broker."""
        name = next((p for p in wait.parts if p.startswith(SAMPLE)), "")
        pod = self.world.api.get("Pod", name)
        if pod is not None and not pod["metadata"].get("deletionTimestamp"):
            self.say(f"deletes pod {name}", wait)
            self.world.api.remove(pod)

    def disk_or_pod(self, wait: Wait) -> None:
        """Follow the message: repair a disk, or recreate the pod."""
        text = wait.message + wait.unblocked_by
        if "delete the pod" in text:
            self.put_back(wait)
            self.delete_pod(wait)
        elif wait.disk:
            self.put_back(wait)

    def permit(self, wait: Wait) -> None:
        """Raise the quota, or give the operator its right again."""
        refused, kinds = self.world.net.refused, {"Pod": "pods"}
        mine = [what for what in refused if what[1] == kinds.get(wait.parts[0], f"{wait.parts[0].lower()}s")]
        if mine:
            self.say(f"permits {', '.join(f'to {verb} {kind}' for verb, kind in mine)}", wait)
            for what in mine:
                refused.pop(what)

    def reads(self, event: Any) -> None:
        """An event, where the status cannot tell: that the API server refuses it."""
        wait = Wait("WriteStatus", f"{event.kind}/{event.name}", event.reason, event.message, event.message)
        if self.world.net.refused:
            self.world.kernel.call_later(PATIENCE, lambda: self.permit(wait))

    def ended_pod(self, wait: Wait) -> None:
        """Replace the disk that the entry names; otherwise restart the node of the pod, which removes a hung process."""
        if wait.disk:
            self.replace_disk(wait)
            return
        pod = self.world.api.get("Pod", wait.parts[1])
        node = self.world.kubelets.nodes.get((pod or {"spec": {}})["spec"].get("nodeName") or "")
        if node is None or not node.up or not self.world.trouble_over:
            return
        self.say(f"restarts {node.name}", wait)
        self.world.power_off(node)
        self.world.kernel.call_later(30.0, lambda: self.world.power_on(node))

    def node_back(self, wait: Wait) -> None:
        """Power on nodes that are off."""
        for node in self.world.kubelets.nodes.values():
            if not node.up and not node.gone and self.world.trouble_over:
                self.say(f"powers {node.name} on", wait)
                self.world.power_on(node)

    def start_broker(self, wait: Wait) -> None:
        """Reset `spec.maintenance.stopped`."""
        for broker in self.world.api.all("KafkaBroker"):
            if (broker["spec"].get("maintenance") or {}).get("stopped") and self.world.trouble_over:
                self.say(f"resets spec.maintenance.stopped of {broker['metadata']['name']}", wait)
                self.world.api.change(broker, {"spec": {"maintenance": {"stopped": False}}}, manager="person")
        self.node_back(wait)

    def cancel_reassignment(self, wait: Wait) -> None:
        """Like kafka-reassign-partitions.sh with the files in the entry, and Admin with the partitions that it names."""
        asked: dict[tuple[str, int], list[int] | None] = {}
        for what, file in re.findall(
            r"sh --(cancel|execute) .*? FILE, with (\{.*?\}) in FILE", wait.unblocked_by
        ):
            for p in json.loads(file)["partitions"]:
                asked[p["topic"], int(p["partition"])] = None if what == "cancel" else p["replicas"]
        if found := re.search(r"without a target for (.*?)(?: and \d+ more)? \(the tool", wait.unblocked_by):
            names_found = (name.rpartition("-") for name in found[1].split(", "))
            asked |= {(t, int(i)): None for t, _, i in names_found}
        now = self.world.truth("reassignments")
        moving = {key: target for key, target in asked.items() if key in now}
        if moving:
            told = ", ".join(f"{t[:20]}-{i}" for t, i in sorted(moving))
            self.say(f"cancels or completes the reassignment of {told}", wait)
            self.world.ask_kafka("alter_partition_reassignments", assignments=moving)

    def add_room(self, wait: Wait) -> None:
        """Free space, or add a disk to every broker, or a broker."""
        freed = False
        for node in self.world.kubelets.nodes.values():
            for slot in node.slots.values():
                if slot.fs is not None and slot.fs.other_bytes:
                    slot.fs.other_bytes, freed = 0, True
        if freed:
            self.say("removes other files from all disks", wait)
            return
        live = self.world.cluster()
        if live is not None and self.world.added == 0:
            self.world.added += 1
            self.world.more_slots(1)

            def change(spec: Json) -> None:
                disks = dict(spec["brokerPools"][0]["disks"])
                if disks.get("all"):
                    disks.pop("maxCount", None)
                else:
                    disks["count"] += 1
                spec["brokerPools"][0]["disks"] = disks

            self._edit(wait, "one disk more for each broker", change)
            return
        self._more_brokers(wait)

    def free_space(self, wait: Wait) -> None:
        """Free space on the full disks of a broker; nothing if the entry does not mention a full disk."""
        if "full" in wait.message and wait.broker is not None and self.world.trouble_over:
            self._more_room(wait, self._slots_of(wait.broker))

    def _slots_of(self, broker: int) -> list[Any]:
        found = self.world.api.get("KafkaBroker", names.broker_name(SAMPLE, broker))
        disks = [d["name"] for d in ((found or {}).get("spec") or {}).get("disks") or ()]
        slots = [self.world.kubelets.slot_of(names.claim_name(SAMPLE, broker, disk)) for disk in disks]
        return [slot for slot in slots if slot is not None]

    def _more_room(self, wait: Wait, slots: Iterable[Any]) -> None:
        """Remove other files from full disks; if there are none, enlarge the file system."""
        for slot in slots:
            fs = slot.fs
            if fs is None or fs.state != "well" or fs.used < NEARLY_FULL * fs.capacity:
                continue
            if fs.other_bytes:
                fs.other_bytes = 0
                self.say(f"removes other files from {slot.node}{slot.path}", wait)
            else:
                fs.capacity = fs.used * 2
                self.say(f"enlarges the file system of {slot.node}{slot.path}", wait)

    def other_broker(self, wait: Wait) -> None:
        """Add a broker that can take replicas for which their own broker has no other disk."""
        since = self.world.told.get((wait.action, wait.object, wait.reason), self.world.kernel.now)
        if self.world.trouble_over and self.world.kernel.now - since > 600.0:
            self._more_brokers(wait)

    def _more_brokers(self, wait: Wait) -> None:
        live = self.world.cluster()
        if live is None:
            return
        if self.world.added >= 3:
            if self.world.trouble_over:
                self._more_room(
                    wait, [s for node in self.world.kubelets.nodes.values() for s in node.slots.values()]
                )
            return
        self.world.added += 1
        self.world.more_nodes(1)
        self._edit(
            wait,
            "one broker more",
            lambda spec: spec["brokerPools"][0].update(replicas=spec["brokerPools"][0]["replicas"] + 1),
        )

    def put_right(self, wait: Wait) -> None:
        """Repair what the message names: replace a disk that cannot be inspected, and recreate the pod."""
        found = re.search(r"disks/(disk\d+)|/(metadata)'", wait.message)
        if found and self.world.trouble_over:
            disk = found[1] or found[2]
            self.put_back(
                Wait(wait.action, f"{wait.object}/{disk}", wait.reason, wait.message, wait.unblocked_by)
            )
            self.delete_pod(wait)

    def claim_back(self, wait: Wait) -> None:
        """Restore the claim from a backup, for the volume that the message names or whose disk has the directory id in it."""
        found = re.search(rf"data-disk\d+-{SAMPLE}-\d+", wait.message)
        before = self.world.claims.get(found[0]) if found else None
        if (
            found is None
            or before is None
            or self.world.api.get("PersistentVolumeClaim", found[0]) is not None
        ):
            return
        directory = re.search(r"directory id ([A-Za-z0-9_-]{22})", wait.message)
        alive = directory is not None and self.world.disk_alive(directory[1])
        for volume in self.world.api.all("PersistentVolume"):
            name = volume["metadata"]["name"]
            named = re.search(rf"\b{re.escape(name)}\b", wait.message)
            if not named and not (alive and name == before["spec"]["volumeName"]):
                continue
            self.say(f"restores claim {found[0]} for volume {name}", wait)
            self._restore_claim(found[0], before, volume)

    def claims_back(self, wait: Wait) -> None:
        """Restore the claims of the retained volumes that the entry names."""
        for name, volume in self._retained(wait):
            before, there = self.world.claims.get(name), self.world.api.get("PersistentVolume", volume)
            if (
                before is not None
                and there is not None
                and self.world.api.get("PersistentVolumeClaim", name) is None
            ):
                self.say(f"restores claim {name} for volume {volume}", wait)
                self._restore_claim(name, before, there)

    @staticmethod
    def _retained(wait: Wait) -> list[tuple[str, str]]:
        """Claims and their retained volumes, as an entry names them."""
        return re.findall(rf"(data-disk\d+-{SAMPLE}-\d+) with spec.volumeName: ([\w-]+)", wait.unblocked_by)

    def _restore_claim(self, name: str, before: Json, volume: Json) -> None:
        """Reserve a volume for a claim, and apply the claim as a backup has it."""
        kept = ("name", "namespace", "labels", "annotations")
        meta = {key: before["metadata"][key] for key in kept if key in before["metadata"]}
        reference = {"name": name, "namespace": "kafka", "uid": None}
        self.world.api.change(volume, {"spec": {"claimRef": reference}}, manager="person")
        self.world.api.put(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": meta,
                "spec": {**before["spec"], "volumeName": volume["metadata"]["name"]},
                "status": {"phase": "Pending"},
            }
        )

    def restart_named(self, wait: Wait) -> None:
        """Restart the broker that the entry names."""
        found = re.search(rf"delete (?:the )?pod ({SAMPLE}-broker-\d+)", wait.unblocked_by, re.IGNORECASE)
        name = found[1] if found else wait.parts[1]
        pod = self.world.api.get("Pod", name)
        if pod is not None and self.world.trouble_over:
            self.say(f"deletes pod {name}", wait)
            self.world.api.remove(pod)

    def pod_of_hung(self, wait: Wait) -> None:
        """Where the entry is about a broker with a hung disk, and so names the command: delete its pod."""
        if "`kubectl delete pod --grace-period=1`" in wait.unblocked_by:
            self.restart_named(wait)

    def stop_and_start(self, wait: Wait) -> None:
        """Where the entry says so, `spindle broker stop`, and when the broker is down `spindle broker start`; whoever does not get down in ten minutes is let be."""
        found = re.search(rf"`spindle broker stop ({SAMPLE}-broker-\d+)`", wait.unblocked_by)
        broker = self.world.api.get("KafkaBroker", found[1]) if found else None
        if (
            found is None
            or broker is None
            or not self.world.trouble_over
            or (broker["spec"].get("maintenance") or {}).get("stopped")
        ):
            return
        name, began = found[1], self.world.kernel.now
        self.say(f"spindle broker stop {name}", wait)
        self.world.api.change(broker, {"spec": {"maintenance": {"stopped": True}}}, manager="person")

        def down() -> None:
            if self.world.api.get("Pod", name) is not None and self.world.kernel.now - began < 600.0:
                self.world.kernel.call_later(EVERY, down)
                return
            live = self.world.api.get("KafkaBroker", name)
            if live is not None and (live["spec"].get("maintenance") or {}).get("stopped"):
                self.say(f"spindle broker start {name}")
                self.world.api.change(live, {"spec": {"maintenance": {"stopped": False}}}, manager="person")

        self.world.kernel.call_later(EVERY, down)

    def let_go(self, wait: Wait) -> None:
        """Set the token in the entry for one of the brokers that wait for each other; or restart it, if the entry says so."""
        found = re.search(r"accept-unavailable (\S+) --token ([0-9a-f]+)", wait.unblocked_by)
        broker = self.world.api.get("KafkaBroker", found[1]) if found else None
        if found is None or broker is None:
            self.restart_named(wait)
        elif self.world.trouble_over:
            self.say(f"allows the restart of {found[1]}: {found[2]}", wait)
            pod = self.world.api.get("Pod", found[1])
            self.world.let_go.add(pod["metadata"]["uid"] if pod is not None else "")
            self.world.api.change(broker, {"spec": {"acceptUnavailable": found[2]}}, manager="person")

    def in_sync_or_broker(self, wait: Wait) -> None:
        """Bring the other replicas back in sync; if that does not help, add a broker, unless there is nothing to copy to it."""
        self.node_back(wait)
        if "add a broker" not in wait.unblocked_by:
            if self.world.trouble_over:
                self.put_back(wait)
            return
        since = self.world.told.get((wait.action, wait.object, wait.reason), self.world.kernel.now)
        if self.world.trouble_over and self.world.kernel.now - since > 600.0:
            self._more_brokers(wait)

    def share_node(self, wait: Wait) -> None:
        """Let brokers share nodes; when that is set, recreate the pods that the entry names."""
        live = self.world.cluster()
        if live is None:
            return
        if not (live["spec"].get("scheduling") or {}).get("sharedNodes"):
            self._edit(
                wait,
                "sharedNodes",
                lambda spec: spec.update(scheduling={**(spec.get("scheduling") or {}), "sharedNodes": True}),
            )
        elif "kubectl delete pod" in wait.unblocked_by:
            self.restart_named(wait)

    def node_for_pod(self, wait: Wait) -> None:
        """A node where any does; where the volumes of the pod are on one, only that one helps."""
        if "another node does not help" in wait.unblocked_by:
            self.node_back(wait)
        else:
            self.add_nodes(wait)

    def add_nodes(self, wait: Wait) -> None:
        """Nodes with free volumes, one in each zone."""
        self.say("adds a node", wait)
        self.world.more_nodes(1, zone_of=wait.message)

    def add_volumes(self, wait: Wait) -> None:
        """Add a volume to each node."""
        self.say("adds a disk to each node", wait)
        self.world.more_slots(1)

    def other_volume(self, wait: Wait) -> None:
        """Delete the claim whose volume is not of the node, if the entry names one; else add volumes."""
        if f"kubectl delete pvc {(name := self._claim_of_disk(wait))}" not in wait.unblocked_by:
            self.add_volumes(wait)
        elif (claim := self.world.api.get("PersistentVolumeClaim", name)) is not None:
            self.say(f"deletes claim {name}", wait)
            self.world.deleted_by_people.add(name)
            self.world.api.remove(claim)

    def _claim_of_disk(self, wait: Wait) -> str:
        broker = self.world.api.get(wait.parts[0], wait.parts[1])
        disks = broker["spec"]["disks"] if broker is not None else []
        return next((str(disk["claim"]) for disk in disks if disk["name"] == wait.parts[-1]), "")

    def volume_off_record(self, wait: Wait) -> None:
        """`spindle volume forget`, or another claim, as the entry says, for a volume that is gone for good."""
        if "kubectl delete pvc" in wait.unblocked_by:
            self.other_volume(wait)
            return
        found = re.search(r"spindle volume forget ([\w.-]+)\.", wait.unblocked_by)
        broker = self.world.api.get(wait.parts[0], wait.parts[1])
        if found is None or broker is None or self.world.api.get("PersistentVolume", found[1]) is not None:
            return
        disks = [dict(disk) for disk in broker["spec"]["disks"]]
        new = [disk for disk in disks if disk.get("pv") == found[1] and not disk.get("pvUid")]
        for disk in new:
            del disk["pv"]
        if new:
            self.say(f"spindle volume forget {found[1]}", wait)
            self.world.api.put({**broker, "spec": {**broker["spec"], "disks": disks}}, manager="person")

    def _edit(self, wait: Wait, what: str, change: Callable[[Json], None]) -> None:
        live = self.world.cluster()
        if live is None:
            return
        spec = {
            **live["spec"],
            "brokerPools": [dict(p) for p in live["spec"]["brokerPools"]],
            "config": dict(live["spec"].get("config") or {}),
        }
        change(spec)
        if not spec["config"]:
            spec.pop("config")
        self.say(f"changes the spec: {what}", wait)
        self.world.api.put({**live, "spec": spec}, manager="person")
        self.world.asked = spec

    def keep_more(self, wait: Wait) -> None:
        """Restore the number of brokers, or of disks."""
        before = cluster(self.world.variety)["spec"]["brokerPools"][0]

        def change(spec: Json) -> None:
            pool = spec["brokerPools"][0]
            pool["replicas"] = max(
                pool["replicas"], before["replicas"], len(self.world.api.all("KafkaBroker"))
            )
            if pool["disks"].get("all"):
                pool["disks"] = before["disks"]
            else:
                count = max(pool["disks"]["count"], before["disks"]["count"])
                pool["disks"] = {**pool["disks"], "count": count}

        self._edit(wait, "as many brokers and disks as before", change)

    def pool_back(self, wait: Wait) -> None:
        """Put the pool back under its name."""
        held = [b["spec"]["pool"] for b in self.world.api.all("KafkaBroker")]
        claimed = [
            (c["metadata"].get("annotations") or {}).get(names.ANN_POOL)
            for c in self.world.api.all("PersistentVolumeClaim")
        ]
        name = next((p for p in [*held, *claimed] if p), "main")
        self._edit(wait, f"pool {name} again", lambda spec: spec["brokerPools"][0].update(name=name))

    def config_back(self, wait: Wait) -> None:
        """Correct the rejected setting."""
        self._edit(wait, "without config", lambda spec: spec.update(config={}))

    def settings_back(self, wait: Wait) -> None:
        """Remove the setting that Kafka rejects, wherever it is set."""
        key = wait.object.rsplit("/", 1)[-1]

        def change(spec: Json) -> None:
            for place in (spec, *spec["brokerPools"]):
                place["config"] = {k: v for k, v in (place.get("config") or {}).items() if k != key}
            for listener in spec.get("listeners") or ():  # the key of one is <name>.<field>
                if key.startswith(f"{listener['name']}."):
                    listener.pop(key.partition(".")[2], None)

        self._edit(wait, f"without {key}", change)

    def template_back(self, wait: Wait) -> None:
        """Remove the pod templates."""

        def change(spec: Json) -> None:
            for place in (spec["controllers"], *spec["brokerPools"]):
                place.pop("podTemplate", None)

        self._edit(wait, "without pod templates", change)

    def certificate_back(self, wait: Wait) -> None:
        """Let listeners present Spindle's certificates again."""

        def change(spec: Json) -> None:
            for listener in spec.get("listeners") or ():
                listener.pop("certificate", None)

        self._edit(wait, "without certificates of listeners", change)

    def accept_again(self, wait: Wait) -> None:
        """Copy the current token from the message."""
        found = re.search(r"write ([A-Za-z0-9_-]{22}:[0-9a-f]+)", wait.unblocked_by)
        if found and wait.broker is not None and wait.disk:
            self.accept(names.broker_name(SAMPLE, wait.broker), wait.disk, found[1])

    def accept_anew(self, wait: Wait) -> None:
        """Remove a used-up token; it is set again, as DataAtRisk says, once there is no record of it."""
        if wait.broker is not None and wait.disk:
            self.world.accept_loss(wait.broker, wait.disk, None)

    def accept(self, name: str, disk: str, word: str) -> None:
        """Accept exactly the named loss, if the disk is permanently lost; otherwise put the disk back."""
        broker = self.world.api.get("KafkaBroker", name)
        if broker is None:
            return
        number = int(broker["spec"]["id"])
        directory = word.split(":", maxsplit=1)[0]
        if self.world.disk_alive(directory):
            self.put_back(
                Wait("Accept", f"KafkaBroker/{name}/{disk}", "DataAtRisk", "", "bring the disk back as it is")
            )
            return
        entries = (broker["spec"].get("acceptDataLoss") or {}).get("disks") or ()
        if {"name": disk, "token": word} in entries:
            return
        self.say(f"accepts the loss of {disk} of {name}: {word}")
        self.world.accept(number, directory, word)
        self.world.accept_loss(number, disk, word)

    def _topics(self) -> None:
        """Follow what KafkaTopics say that only a user can resolve, and status.waiting does not have."""
        for topic in self.world.api.all("KafkaTopic"):
            name = topic["metadata"]["name"]
            rows = {c["type"]: c for c in (topic.get("status") or {}).get("conditions") or ()}
            if rows.get("Ready", {}).get("reason") != "InvalidSpec":
                self.done.pop(("topic", name), None)
                continue
            since = self.done.setdefault(("topic", name), self.world.kernel.now)
            found = re.search(r"set min\.insync\.replicas to (\d+)", rows["Ready"]["message"])
            if found is not None and self.world.kernel.now - since > PATIENCE:
                self.say(f"sets min.insync.replicas of {name} to {found[1]}")
                config = {"min.insync.replicas": found[1]}
                self.world.api.change(topic, {"spec": {"config": config}}, manager="person")

    def _at_risk(self, live: Json) -> None:
        """Follow the condition DataAtRisk."""
        found = next(
            (c for c in (live.get("status") or {}).get("conditions") or () if c["type"] == "DataAtRisk"), None
        )
        if found is None or found["status"] != "True":
            self.world.risk_since = None
            return
        since = self.world.risk_since = self.world.risk_since or self.world.kernel.now
        if self.world.kernel.now - since > 300.0 and self.world.trouble_over:
            for name, disk, word in _LOSS.findall(found.get("message", "")):
                self.accept(name, disk, word)

    def _node_gone(self) -> None:
        """Power on everything that is off, when the faults are over."""
        if self.world.trouble_over:
            for node in self.world.kubelets.nodes.values():
                if not node.up and not node.gone:
                    self.world.power_on(node)

    def node_is_gone(self, wait: Wait) -> None:
        """Accept the loss of the node, if it is lost."""
        broker = (
            self.world.api.get("KafkaBroker", names.broker_name(SAMPLE, wait.broker))
            if wait.broker is not None
            else None
        )
        if broker is None:
            return
        node = self.world.kubelets.nodes.get(broker["spec"].get("node") or "")
        if node is not None and node.gone and not (broker["spec"].get("acceptDataLoss") or {}).get("node"):
            self.say(f"accepts the loss of {node.name}", wait)
            self.world.api.change(broker, {"spec": {"acceptDataLoss": {"node": node.name}}}, manager="person")

    def untaint(self, wait: Wait) -> None:
        """Remove the taint from a node that answers."""
        for node in self.world.api.all("Node"):
            self.world.api.change(node, {"spec": {"taints": None}}, manager="person")

    def claim_away(self, wait: Wait) -> None:
        """Delete a claim that is in the way and whose data is not needed."""
        claim = self.world.api.get("PersistentVolumeClaim", wait.parts[-1])
        if claim is not None:
            self.say(f"deletes claim {wait.parts[-1]}", wait)
            self.world.deleted_by_people.add(wait.parts[-1])
            self.world.api.remove(claim)

    def claim_annotation(self, wait: Wait) -> None:
        """`kubectl annotate`, as the entry says."""
        found = re.search(r"kubectl annotate pvc (\S+) --overwrite ([^`]+)`", wait.unblocked_by)
        claim = self.world.api.get("PersistentVolumeClaim", found[1]) if found else None
        if found is not None and claim is not None:
            self.say(f"restores the annotations of claim {found[1]}", wait)
            notes = dict(each.split("=", 1) for each in found[2].split())
            self.world.api.change(claim, {"metadata": {"annotations": notes}}, manager="person")

    def identity_back(self, wait: Wait) -> None:
        """Restore the identity record, from a backup or from the claims."""
        found = self.world.api.get("ConfigMap", names.identity_map(SAMPLE))
        if found is not None and "Unreadable" in wait.reason:
            self.say("deletes the identity record: Spindle recreates it from the claims", wait)
            self.world.api.remove(found)

    def journal_away(self, wait: Wait) -> None:
        """Cancel reassignments, remove throttles, delete the journal."""
        self.say("cancels reassignments, removes throttles and deletes the journal", wait)
        self.world.clear_moves()
        found = self.world.api.get("ConfigMap", names.moves_map(SAMPLE))
        if found is not None:
            self.world.api.remove(found)

    def all_pods_again(self, wait: Wait) -> None:
        """Delete all pods at once: they come back with certificates of one CA."""
        self.say("deletes all pods", wait)
        for pod in self.world.api.all("Pod"):
            if pod["metadata"]["name"].startswith(f"{SAMPLE}-"):
                self.world.api.remove(pod)

    def ca_back(self, wait: Wait) -> None:
        """Restore the CA's Secret from a backup; without one, renew everything."""
        secret = self.world.secrets.get(names.ca_secret(SAMPLE))
        if secret is not None and self.world.api.get("Secret", names.ca_secret(SAMPLE)) is None:
            self.say("restores the Secret of the CA", wait)
            meta = {
                k: v
                for k, v in secret["metadata"].items()
                if k not in ("uid", "resourceVersion", "deletionTimestamp")
            }
            owner = self.world.cluster()
            if owner is not None and meta.get("ownerReferences"):
                meta["ownerReferences"] = [{**meta["ownerReferences"][0], "uid": owner["metadata"]["uid"]}]
            self.world.api.put({**secret, "metadata": meta})

    def rebalance(self, wait: Wait) -> None:
        """`spindle rebalance run`, and approve it: the job is not simulated, so its effect is applied."""
        self.say("runs a rebalance and approves it", wait)
        self.world.rebalance()

    def unmark(self, wait: Wait) -> None:
        """Delete a setting that a user made by hand."""
        self.world.clear_settings()

    def topic_settings(self, wait: Wait) -> None:
        """Nothing: problems of topics are not simulated."""

    def relabel(self, wait: Wait) -> None:
        """Restore the nodes' zone labels."""
        for node in self.world.kubelets.nodes.values():
            live = self.world.api.get("Node", node.name)
            if live is not None:
                labels = {"topology.kubernetes.io/zone": node.zone or None}
                self.world.api.change(live, {"metadata": {"labels": labels}}, manager="person")

    def other_factor(self, wait: Wait) -> None:
        """Write the replication factor that the entry names."""
        found = re.search(r"[sS]et spec\.replicas (?:of the KafkaTopic )?to (\d+)", wait.unblocked_by)
        topic = self.world.api.get("KafkaTopic", wait.parts[1])
        if found is not None and topic is not None:
            self.say(f"sets spec.replicas of {wait.parts[1]} to {found[1]}", wait)
            self.world.ask_factor(topic["spec"]["topicName"], int(found[1]))

    def as_it_should_be(self, wait: Wait) -> None:
        """Confirm that the current state of Kafka is as intended."""
        found = self.world.api.get("ConfigMap", wait.parts[1])
        if found is not None:
            self.say("removes the annotation from the journal of moves", wait)
            self.world.api.change(
                found, {"metadata": {"annotations": {names.ANN_LOST: None}}}, manager="person"
            )

    def delete_object(self, wait: Wait) -> None:
        """Delete what is not needed, in the namespace that the command names."""
        kind, name = wait.parts[0], wait.parts[1]
        namespace = re.search(r" -n ([a-z0-9-]+)", wait.unblocked_by)
        found = self.world.api.get(kind, name, namespace[1] if namespace else NAMESPACE)
        if found is not None:
            self.say(f"deletes {wait.object}", wait)
            self.world.api.remove(found)


_P = Person
WAYS: dict[str, Callable[[Person, Wait], None]] = {
    reason: way
    for way, reasons in (
        (_P.nothing, """ManyChanges DependenciesMissing ClaimBeingDeleted QuorumPending PlanPending ReplicaRestorePending RestartPending LeadershipMoving CaReplaced
            QuorumStatic DynamicConfigNotReverted Soaking ReplicasOnBroker EligibleLeaderReplicas BrokerStillRegistered ReplicasMoving MovedToOtherDisk MoveObsolete
            MoveFailed MoveBackOff MoveCancelled TargetLost ThrottlesReverting PodsTerminating IntraBrokerMovesInProgress LoadingLogs RolloutInProgress
            QuorumChanging ControllersJoining DiskInspectionPending VolumeExpansionInProgress WaitingForBrokers VolumeNotBound ReplicaReturning
            UnderReplicated LastReplicaServed CatchUpInProgress JournalFull ReplicasOnDisk EvictionDeferred QuorumUnknown NoQuorumLeader
            MinIsrUnknown ElrUnknown SettingsUnknown WouldLoseQuorum CorrelatedDiskStalls HangUnconfirmed DiskStillServes CorrelatedDiskFailures CannotRead JobUnreadable NodesUnknown
            UsersUnknown TopicsUnknown UserCertificatesValidForServers ProposalsUnknown AgentCertificatesUnknown ZoneWithoutBrokers SingleZone UnevenSpread CordonNotSupported EvenControllerCount AddressPending GatewayApiMissing RouteNotAccepted RoutesUnknown
            ListenerCertificateLacksHosts ListenerCertificateExpiring ListenerCertificateSpreading
            RetentionReduced ProducersThrottled ProducersBlocked MovesBlocked EmptyReplicaMayLead TargetUnavailable TargetUnusable TargetDiskFilling Executing
            MaintenanceWindowClosed TopicDeleted ReplicaRelocated MoveNotStarted ReplicaSizeChanged TargetGone NoMovesLeft Expired Superseded StoppedByUser
            ApprovalWithdrawn MaxDurationExceeded LogDirNotSelectable RunFailed RunSucceeded DiskFailureHasPriority PartitionsUnderMinIsr AnotherProposalExecuting BlockedByOfflineLogDir
            JournalNotFound JournalDeleted CancellationRejected AgentNotReporting AgentStarved AllowedForCompatibility OrphanedObject
            BrokerOutOfSync PodTemplateUnchecked"""),
        (_P.free_space, "DisksFull DiskOffline"),
        (_P.other_broker, "TopicNameTooLong"),
        (_P.last_disk, "LastDisk"),
        (_P.replace_disk, "ReplacementNeeded RetiredDiskReinserted ProcessHung DiskContentLost"),
        (_P.put_back, "VoterLogLost UnexpectedDisk LastReplicaAtRisk DirectoryIdAlreadyUsed OtherDiskMayHoldReplica"),
        (_P.disk_or_pod, "DiskUnusable PreflightFailed InspectionFailed QuorumMajorityMissing StartDeadlineExceeded"),
        (_P.delete_pod, "KafkaCrashed CrashLooping"),
        (_P.ended_pod, "StopDeadlineExceeded"),
        (_P.permit, "RequestRefused"),
        (_P.node_back, """NodeNotReady NodeUnreachable NodeUnknown SurvivorsUnavailable AnotherBrokerDown WouldBeUnderMinIsr ProgressDeadlineExceeded RolloutStalled
            ControllersNotReady NoLeader SourceDown ReplicaRemovalPending"""),
        (_P.other_factor, "ReplicasBelowMinIsr ReplicasNotPlaceable"),
        (_P.put_right, "CreateContainerError CreateContainerConfigError RunContainerError"),
        (_P.begin_anew, "AllDisksLost"),
        (_P.claims_back, "BrokerNotFound"),
        (_P.claim_back, "ClaimMissing ReplicasNotFound"),
        (_P.restart_named, "OnlyInSyncReplica AgentTooOld"),
        (_P.pod_of_hung, "KafkaUnknown"),
        (_P.stop_and_start, "ReplicationStalled DiskExcluded"),
        (_P.let_go, "RestartDeadlock"),
        (_P.cancel_reassignment, "ExternalReassignment ReassignmentInProgress"),
        (_P.in_sync_or_broker, "InsufficientInSyncReplicas"),
        (_P.start_broker, "LogDirsUnknown BrokerRecordRetained StoppedBrokerNeeded"),
        (_P.node_is_gone, "NodeLost"),
        (_P.untaint, "NodeStillReachable"),
        (_P.add_room, """NoMoveTarget InsufficientSpaceToRestore InsufficientSpaceOnBroker InsufficientSpace NoReplicaToDrop InsufficientSpaceForDiskRemoval InsufficientSpaceToScaleIn TargetDiskFull WouldReduceRackSpread
            RepairDeferred"""),
        (_P.add_nodes, "InsufficientNodes"),
        (_P.node_for_pod, "Unschedulable"),
        (_P.share_node, "NodeInUse"),
        (_P.add_volumes, "InsufficientVolumes InsufficientVolumesOnNode"),
        (_P.other_volume, "VolumeNotOnNode"),
        (_P.volume_off_record, "VolumeUnavailable"),
        (_P.keep_more, "InsufficientBrokers ConfigNeedsMoreBrokers InsufficientRacks ExpansionNotSupported"),
        (_P.pool_back, "PoolNotFound UnknownPoolClaims"),
        (_P.accept_again, "AcceptanceOutdated"),
        (_P.accept_anew, "AcceptanceAlreadyUsed"),
        (_P.claim_annotation, "ClaimDirectoryIdMismatch"),
        (_P.claim_away, "ClaimNameConflict ClaimLost ClaimClusterIdMismatch"),
        (_P.identity_back, "ClusterIdConflict IdentityUnreadable"),
        (_P.journal_away, "JournalUnreadable"),
        (_P.as_it_should_be, "JournalLost"),
        (_P.ca_back, "CaMissing CaSecretInvalid"),
        (_P.all_pods_again, "CaMismatch"),
        (_P.rebalance, "RackSpreadViolated ApprovalRequired"),
        (_P.unmark, "ConfigOverridden UncleanElectionsEnabled"),
        (_P.relabel, "ZoneChanged NoZoneLabels NodesWithoutZone MixedRacks BrokersWithoutRack"),
        (_P.delete_object, "OrphanedPod InvalidProposal TopicNotManaged UnknownVoter NameConflict"),
        (_P.config_back, "ImagePullFailed NoStorageClass ClassNotLocal DowngradeNotSupported StaticQuorum VersionNotSupported"),
        (_P.settings_back, "InvalidConfig SpecNotAllowed DynamicConfigRejected"),
        (_P.template_back, "InvalidPodTemplate PodTemplateRefused AddedContainerFailed"),
        (_P.certificate_back, "ListenerCertificateInvalid"),
        (_P.topic_settings, "CorruptSegment"),
    )
    for reason in reasons.split()
}  # fmt: skip
