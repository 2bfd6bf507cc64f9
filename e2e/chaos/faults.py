"""The faults: each returns a sentence for the table, and adds the function that ends it to ``undo``.

``destroys`` marks those that permanently remove records from a disk. Only one of these at a time: with two, acknowledged records
may be on no disk any more, and nothing could have prevented that.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from e2e.chaos.bench import Bench
from e2e.scenarios.lab import CLUSTER, LabError

_LONG_NAME: Final = "n" * 240
_BURN: Final = "import itertools\nfor _ in itertools.count(): pass"


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        begin: starts it; returns a sentence without a full stop.
        destroys: whether it permanently removes records from a disk.
        weight: how often it is chosen, relative to others.
    """

    begin: Callable[[Bench], str]
    destroys: bool = False
    weight: int = 2

    @property
    def name(self) -> str:
        """Name for tables."""
        return self.begin.__name__.replace("_", " ").strip()


# -- processes and pods


def kafka_is_killed(bench: Bench) -> str:
    name = bench.broker()
    if pod := bench.pod(name):
        bench.machine.kill_container(pod, "kafka")
    return f"Kafka of {name} is killed"


def a_broker_pod_is_deleted(bench: Bench) -> str:
    name = bench.broker()
    bench.lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")
    return f"pod {name} is deleted by hand"


def a_controller_pod_is_deleted(bench: Bench) -> str:
    name = f"{CLUSTER}-controller-{bench.rng.randrange(3)}"
    bench.lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")
    return f"pod {name} is deleted by hand"


def the_operator_is_killed(bench: Bench) -> str:
    bench.killer.kill()
    return "the leading operator is killed"


def an_agent_is_killed(bench: Bench) -> str:
    node = bench.node()
    if pod := bench.agent_of(node):
        bench.agents.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--ignore-not-found")
    return f"the agent of {node} is killed"


# -- disks


def _disk(how: str, bench: Bench, *arguments: int) -> str:
    slot = bench.slot()
    bench.machine.disk(how, slot.volume, *arguments)
    bench.undo.append(partial(bench.machine.disk, "heal", slot.volume))
    return f"{slot.subject}: {how}, until it is healed"


def a_disk_fails_for_a_while(bench: Bench) -> str:
    return _disk("fail", bench)


def a_disk_hangs(bench: Bench) -> str:
    return _disk("hang", bench)


def a_disk_crawls(bench: Bench) -> str:
    return _disk("slow", bench, bench.rng.choice((200, 1000)))


def a_disk_fills(bench: Bench) -> str:
    return _disk("fill", bench, bench.rng.choice((86, 93, 97)))


def a_disk_dies_and_is_replaced(bench: Bench) -> str:
    slot = bench.slot()
    bench.machine.disk("fail", slot.volume)

    def replace() -> None:
        try:
            bench.lab.until(f"{slot.subject} is safe to pull", lambda: slot.state() == "Evacuated", 300)
        except LabError:
            print(f"   {slot.subject} was not reported safe to pull in time; it is swapped anyway")
        bench.machine.new_disk(slot.volume)

    bench.undo.append(replace)
    return f"{slot.subject} fails; a blank disk replaces it when it is safe to pull"


def a_disk_is_swapped_under_its_broker(bench: Bench) -> str:
    slot = bench.slot()
    bench.machine.new_disk(slot.volume)
    return f"{slot.subject} is swapped for a blank disk while Kafka runs on it"


# -- nodes and cables


def a_node_loses_its_power(bench: Bench) -> str:
    node = bench.node()
    bench.machine.node_off(node)
    bench.undo.append(partial(bench.machine.node_on, node))
    return f"{node} is powered off for a while"


def a_node_loses_its_cable(bench: Bench) -> str:
    node = bench.node()
    index = int(node.removeprefix("node"))
    bench.testbed.link_down(index)
    bench.undo.append(partial(bench.testbed.link_up, index))
    return f"{node}'s network cable is unplugged for a while"


def two_nodes_are_parted(bench: Bench) -> str:
    one, other = bench.node(), bench.node()
    both = bench.rng.random() < 0.5
    bench.testbed.partition(int(one.removeprefix("node")), int(other.removeprefix("node")), both=both)
    bench.undo.append(bench.testbed.heal_partitions)
    return f"no packets {'between' if both else 'from'} {one} {'and' if both else 'to'} {other}"


def a_clock_jumps(bench: Bench) -> str:
    node = bench.node()
    seconds = bench.rng.choice((-900, -45, 45, 660))

    def start_anew() -> None:
        if pod := bench.agent_of(node):
            bench.agents.kubectl("delete", "pod", pod, "--ignore-not-found", "--wait=false")
        for broker in bench.lab.list("kafkabrokers"):
            if broker["spec"]["node"] == node:
                name = broker["metadata"]["name"]
                bench.lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")

    def right() -> None:
        bench.machine.clock(node, 0)
        start_anew()

    bench.machine.clock(node, seconds)
    start_anew()
    bench.undo.append(right)
    return f"agent and broker of {node} restart with clocks that are {seconds:+d} s off"


def the_api_server_stands_still(bench: Bench) -> str:
    pid = bench.testbed.state.processes["kube-apiserver"].pid
    os.kill(pid, signal.SIGSTOP)
    bench.undo.insert(0, partial(os.kill, pid, signal.SIGCONT))  # the other faults cannot be ended without it
    return "the API server is stopped"


def the_machine_is_busy(bench: Bench) -> str:
    burning = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(bench.rng.choice((2, 6, 12)))]

    def end() -> None:
        for process in burning:
            process.kill()
            process.wait()

    bench.undo.append(end)
    return f"{len(burning)} other processes use all CPUs"


# -- users and other tools


def an_object_is_deleted(bench: Bench) -> str:
    kind = bench.rng.choice(("configmap", "service", "poddisruptionbudget", "serviceaccount"))
    names = [name for name in bench.labelled(kind) if not name.endswith("-identity")]
    if not names:
        return f"no {kind} to delete"
    name = bench.rng.choice(names)
    bench.lab.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false")
    return f"{kind}/{name} is deleted by hand"


def a_label_is_taken_away(bench: Bench) -> str:
    kind = bench.rng.choice(("configmap", "service", "kafkabroker", "persistentvolumeclaim"))
    names = bench.labelled(kind)
    if not names:
        return f"no {kind} to edit"
    name = bench.rng.choice(names)
    bench.lab.kubectl("label", kind, name, "spindle.dev/cluster-", check=False)
    return f"the cluster's label is removed from {kind}/{name}"


def somebody_reassigns(bench: Bench) -> str:
    topic = bench.load.topics[0]
    partition = bench.rng.randrange(topic.partitions)
    ids = sorted(broker["spec"]["id"] for broker in bench.lab.list("kafkabrokers"))
    replicas = bench.rng.sample(ids, min(len(ids), topic.replicas))
    bench.load.reassign(topic.name, partition, replicas)
    return f"another tool reassigns {topic.name}-{partition} to {replicas}"


def a_topic_with_a_long_name_is_made(bench: Bench) -> str:
    name = f"{_LONG_NAME}{bench.rng.randrange(1000):03d}"
    bench.lab.spindle(
        *("topic", "create", name, "-n", bench.lab.namespace, "-c", CLUSTER),
        *("--partitions", "2", "--replication-factor", "3"),
    )
    return f"a topic with a name of {len(name)} characters is created"


def a_setting_is_changed(bench: Bench) -> str:
    setting: Mapping[str, str] = bench.rng.choice(
        (
            {"log.retention.hours": str(bench.rng.randrange(100, 200))},
            {"num.replica.fetchers": str(bench.rng.randrange(1, 4))},
            {"queued.max.requests": str(bench.rng.randrange(400, 600))},  # needs a restart
        )
    )
    bench.lab.patch("kafkacluster", CLUSTER, {"spec": {"config": dict(setting)}})
    return f"spec.config is changed: {dict(setting)}"


FAULTS: Final = (
    Fault(kafka_is_killed),
    Fault(a_broker_pod_is_deleted),
    Fault(a_controller_pod_is_deleted),
    Fault(the_operator_is_killed, weight=4),
    Fault(an_agent_is_killed),
    Fault(a_disk_fails_for_a_while, weight=3),
    Fault(a_disk_hangs, weight=3),
    Fault(a_disk_crawls),
    Fault(a_disk_fills),
    Fault(a_disk_dies_and_is_replaced, destroys=True, weight=4),
    Fault(a_disk_is_swapped_under_its_broker, destroys=True, weight=4),
    Fault(a_node_loses_its_power, weight=3),
    Fault(a_node_loses_its_cable),
    Fault(two_nodes_are_parted),
    Fault(a_clock_jumps),
    Fault(the_api_server_stands_still),
    Fault(the_machine_is_busy),
    Fault(an_object_is_deleted, weight=3),
    Fault(a_label_is_taken_away),
    Fault(somebody_reassigns),
    Fault(a_topic_with_a_long_name_is_made, weight=1),
    Fault(a_setting_is_changed),
)
