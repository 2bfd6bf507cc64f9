"""Load for scenarios: a pod that writes with acks=all, records what was acknowledged, and reads it all back at the end.

The pod runs ``load_client.py``; this module starts it, reads its output, and evaluates the result.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.scenarios.lab import CLUSTER, Lab, client_pod

_PROGRAM: Final = (Path(__file__).parent / "load_client.py").read_text()


# Records that only one replica has acknowledged are then on its disk; by default they are in the page cache, and lost with the machine.
FLUSHED: Final = ("flush.messages=1",)


@dataclass(frozen=True)
class Topic:
    """A topic that the load writes to; ``config`` are additional settings, ``key=value``."""

    name: str
    partitions: int = 6
    replicas: int = 3
    min_isr: int = 2
    config: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outside:
    """How a client outside Kubernetes finds Kafka: in the network of its node, without the cluster's DNS.

    Attributes:
        bootstrap: host and port.
        address: to which all hosts resolve.
        hosts: the host names.
    """

    bootstrap: str
    address: str
    hosts: tuple[str, ...]

    def move(self, pod: dict[str, Any]) -> None:
        """Change a pod into such a client."""
        pod["spec"] |= {
            "hostNetwork": True,
            "hostAliases": [{"ip": self.address, "hostnames": list(self.hosts)}],
        }


@dataclass(frozen=True)
class Replica:
    """The location of one replica, as its broker reports it."""

    topic: str
    partition: int
    broker: int
    disk: str
    bytes: int

    @property
    def name(self) -> str:
        """``topic-partition``."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class Report:
    """The result at the end, by partition (``topic-0``).

    Attributes:
        partitions: for each ``sent``, ``acked``, ``read``, ``lost``, ``unreadable`` (why, or empty) and ``gaps``: times in
            seconds since the epoch between which nothing was acknowledged although something was sent.
    """

    partitions: Mapping[str, Mapping[str, Any]]

    @property
    def acked(self) -> int:
        """Number of acknowledged records."""
        return sum(line["acked"] for line in self.partitions.values())

    @property
    def lost(self) -> dict[str, int]:
        """Acknowledged records that are missing: partition → how many. Of an unreadable partition, all that were not read."""
        return {name: line["lost"] for name, line in self.partitions.items() if line["lost"]}

    def gaps(self, begin: float = 0.0) -> dict[str, float]:
        """The longest gap of each partition that had one after a given time, in seconds."""
        found = {
            name: max((end - start for start, end in line["gaps"] if end > begin), default=0.0)
            for name, line in self.partitions.items()
        }
        return {name: round(seconds, 1) for name, seconds in found.items() if seconds}

    def silent_until(self, begin: float) -> dict[str, float]:
        """Seconds from a given time until the end of the last gap that started around it or later, by partition."""
        found = {
            name: max((end - begin for _, end in line["gaps"] if end > begin), default=0.0)
            for name, line in self.partitions.items()
        }
        return {name: round(seconds, 1) for name, seconds in found.items() if seconds}

    def summary(self, begin: float = 0.0) -> str:
        """Summary in one line."""
        read = sum(line["read"] for line in self.partitions.values())
        return f"acknowledged {self.acked}, read {read}, lost {self.lost or 'none'}, longest gaps in s {self.gaps(begin) or 'none'}"


@dataclass(frozen=True)
class Load:
    """A running load.

    Attributes:
        pod: its pod.
        topics: the topics that it writes to.
    """

    lab: Lab
    pod: str
    topics: tuple[Topic, ...]

    def lines(self) -> list[dict[str, Any]]:
        """Its whole output so far."""
        return [
            json.loads(line)
            for line in self.lab.kubectl("logs", self.pod).splitlines()
            if line.startswith("{")
        ]

    def acked(self) -> int:
        """Records acknowledged so far."""
        return int(self._last().get("acked", 0))

    def silent(self) -> dict[str, float]:
        """Partitions without acknowledgements at the moment, and for how many seconds."""
        return dict(self._last().get("silent", {}))

    def _last(self) -> dict[str, Any]:
        tail = [
            json.loads(line)
            for line in self.lab.kubectl("logs", self.pod, "--tail=40").splitlines()
            if line.startswith("{")
        ]
        return next((line for line in reversed(tail) if "acked" in line), {})

    def until_more(self, records: int = 200, seconds: float = 60) -> None:
        """Wait until this many more records are acknowledged."""
        before = self.acked()
        self.lab.until(f"{records} more acknowledged", lambda: self.acked() >= before + records, seconds)

    def until_all_writable(self, seconds: float = 120) -> float:
        """Wait until every partition acknowledges; returns how long that took."""
        before = len(self.lines())
        return self.lab.until(
            "every partition acknowledges", lambda: len(self.lines()) > before and not self.silent(), seconds
        )

    def partitions(self) -> dict[str, tuple[int, list[int], list[int]]]:
        """Leader (-1 for none), ISR and replicas of each partition, as last reported."""
        found: dict[str, tuple[int, list[int], list[int]]] = {}
        for line in self.lines():
            found |= {name: (x[0], x[1], x[2]) for name, x in line.get("partitions", {}).items()}
        return found

    def placement(self) -> list[Replica]:
        """Location of each replica of its topics, from the brokers that answer; without future replicas."""
        return [replica for replica, future in self.logs()[1] if not future]

    def logs(self) -> tuple[float, list[tuple[Replica, bool]]]:
        """Every log of its topics, and whether it is a future replica; with the time of the answer."""
        mine = {topic.name for topic in self.topics}
        answer = json.loads(self._ask("placement").splitlines()[-1])
        return float(answer["at"]), [
            (
                Replica(x["topic"], x["partition"], x["broker"], Path(x["dir"]).parent.name, x["bytes"]),
                bool(x["future"]),
            )
            for x in answer["placement"]
            if x["topic"] in mine
        ]

    def broker_settings(self) -> dict[str, dict[str, str]]:
        """Dynamic settings of each broker: throttles, cordons."""
        return dict(json.loads(self._ask("settings").splitlines()[-1])["settings"])

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Reassign a partition, as Kafka's own tool does."""
        self._ask("reassign", topic, str(partition), ",".join(str(broker) for broker in replicas))

    def configs(self) -> dict[str, dict[str, str]]:
        """Settings of each topic itself."""
        return dict(json.loads(self._ask("configs").splitlines()[-1])["configs"])

    def refused(self) -> dict[str, str]:
        """Partitions of which a producer abandoned a record, and its last error."""
        return {line["failed"]: line["error"] for line in self.lines() if "failed" in line}

    def drop(self, topic: Topic) -> None:
        """Delete a topic to which the load no longer writes."""
        self._ask("drop", topic.name)

    def finish(self) -> Report:
        """Stop it, and wait until everything is read back and, unless they are kept, its topics are deleted."""
        self.lab.kubectl("exec", self.pod, "--", "touch", "/tmp/stop")
        self.lab.until("everything is read back", lambda: '"result"' in self._tail() or self._ended(), 400)
        if '"result"' not in self._tail():
            raise AssertionError(
                f"the load ended by itself:\n{self.lab.kubectl('logs', self.pod, '--tail=25')}"
            )
        return Report(json.loads(self._tail().splitlines()[-1])["result"])

    def _ended(self) -> bool:
        return bool(self.lab.the("pod", self.pod)["status"]["phase"] == "Failed")

    def _tail(self) -> str:
        # The kubelet splits a long line, and counts each part.
        return self.lab.kubectl("logs", self.pod, "--tail=100").strip()

    def _ask(self, *arguments: str) -> str:
        return self.lab.kubectl("exec", self.pod, "--", "python3", "-c", _PROGRAM, *arguments, timeout=90)


@contextmanager
def load(
    lab: Lab,
    image: str,
    *topics: Topic,
    rate: float = 10,
    size: int = 500,
    fill: int = 0,
    keep: bool = False,
    away_from: Sequence[str] = (),
    there: bool = False,
    outside: Outside | None = None,
) -> Iterator[Load]:
    """Create topics and write to them continuously.

    Args:
        lab: where.
        image: Spindle's, which contains the client's libraries.
        topics: the topics; with ``there`` they exist already.
        rate: records per partition and second.
        size: bytes of a record.
        fill: MiB that are written to each topic first.
        keep: whether the topics are kept after everything is read back.
        away_from: nodes that will lose power.
        outside: how it finds Kafka, if not through the bootstrap address inside Kubernetes.
    """
    for topic in () if there else topics:
        make_topic(lab, topic)
    name = f"load-{topics[0].name}"
    settings = {
        "TOPICS": ",".join(topic.name for topic in topics),
        "RATE": str(rate),
        "SIZE": str(size),
        "FILL": str(fill),
        "KEEP": "yes" if keep else "",
        **({"BOOTSTRAP": outside.bootstrap} if outside else {}),
    }
    pod = client_pod(lab, name, image, _PROGRAM, settings, "produce")
    if outside:
        outside.move(pod)
    if away_from:
        other = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(away_from)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [other]}]}
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    lab.apply(pod)
    running = Load(lab, name, topics)
    try:
        lab.until("the load runs", lambda: running.acked() > 0, 120 + fill)
        yield running
    except BaseException:
        # SIGUSR1 makes it print the stack of each thread.
        lab.kubectl("exec", name, "--", "sh", "-c", "kill -USR1 1; sleep 1", check=False)
        print(lab.kubectl("logs", name, "--tail=150", check=False))
        raise
    finally:
        lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")


def make_topic(lab: Lab, topic: Topic) -> None:
    """Create a topic as a user does."""
    lab.spindle(
        *("topic", "create", topic.name, "-n", lab.namespace, "-c", CLUSTER),
        *("--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)),
        *("--config", f"min.insync.replicas={topic.min_isr}"),
        *(part for setting in topic.config for part in ("--config", setting)),
    )
