"""Load for scenarios: a pod that writes with acks=all, knows what was acknowledged, and reads it all back at the end.

The pod runs ``load_client.py``; here it is started, asked, and its last word judged.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.scenarios.lab import CLUSTER, Lab, client_pod

_PROGRAM: Final = (Path(__file__).parent / "load_client.py").read_text()


# What one copy alone has acknowledged is then on its disk; by default it is in its machine's memory, and goes with the disk.
FLUSHED: Final = ("flush.messages=1",)


@dataclass(frozen=True)
class Topic:
    """A topic that the load writes to; ``config`` are further settings, ``key=value``."""

    name: str
    partitions: int = 6
    replicas: int = 3
    min_isr: int = 2
    config: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replica:
    """Where one replica stands, as its broker tells."""

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
    """What the ledger says at the end, by partition (``topic-0``).

    Attributes:
        partitions: for each ``sent``, ``acked``, ``read``, ``lost``, ``unreadable`` (why, or empty) and ``gaps``: times in
            seconds since the epoch between which nothing was acknowledged though something was sent.
    """

    partitions: Mapping[str, Mapping[str, Any]]

    @property
    def acked(self) -> int:
        """Records acknowledged."""
        return sum(line["acked"] for line in self.partitions.values())

    @property
    def lost(self) -> dict[str, int]:
        """Acknowledged and not there: partition → how many. An unreadable partition has lost what was not read."""
        return {name: line["lost"] for name, line in self.partitions.items() if line["lost"]}

    def gaps(self, begin: float = 0.0) -> dict[str, float]:
        """The longest gap of each partition that had one after a moment, in seconds."""
        found = {
            name: max((end - start for start, end in line["gaps"] if end > begin), default=0.0)
            for name, line in self.partitions.items()
        }
        return {name: round(seconds, 1) for name, seconds in found.items() if seconds}

    def silent_until(self, begin: float) -> dict[str, float]:
        """Seconds from a moment until the last gap that began around it or later ended, by partition."""
        found = {
            name: max((end - begin for _, end in line["gaps"] if end > begin), default=0.0)
            for name, line in self.partitions.items()
        }
        return {name: round(seconds, 1) for name, seconds in found.items() if seconds}

    def summary(self, begin: float = 0.0) -> str:
        """One line for a person."""
        read = sum(line["read"] for line in self.partitions.values())
        return f"acknowledged {self.acked}, read {read}, lost {self.lost or 'none'}, longest gaps in s {self.gaps(begin) or 'none'}"


@dataclass(frozen=True)
class Load:
    """A load that runs.

    Attributes:
        pod: its pod.
        topics: those that it writes to.
    """

    lab: Lab
    pod: str
    topics: tuple[Topic, ...]

    def lines(self) -> list[dict[str, Any]]:
        """Everything that it told so far."""
        return [
            json.loads(line)
            for line in self.lab.kubectl("logs", self.pod).splitlines()
            if line.startswith("{")
        ]

    def acked(self) -> int:
        """Records acknowledged so far."""
        return int(self._last().get("acked", 0))

    def silent(self) -> dict[str, float]:
        """Partitions that are not acknowledging just now, and for how many seconds."""
        return dict(self._last().get("silent", {}))

    def _last(self) -> dict[str, Any]:
        tail = [
            json.loads(line)
            for line in self.lab.kubectl("logs", self.pod, "--tail=40").splitlines()
            if line.startswith("{")
        ]
        return next((line for line in reversed(tail) if "acked" in line), {})

    def until_more(self, records: int = 200, seconds: float = 60) -> None:
        """Wait until so many more are acknowledged."""
        before = self.acked()
        self.lab.until(f"{records} more acknowledged", lambda: self.acked() >= before + records, seconds)

    def until_all_writable(self, seconds: float = 120) -> float:
        """Wait until every partition acknowledges; returns how long that took."""
        before = len(self.lines())
        return self.lab.until(
            "every partition acknowledges", lambda: len(self.lines()) > before and not self.silent(), seconds
        )

    def partitions(self) -> dict[str, tuple[int, list[int], list[int]]]:
        """Leader (-1 for none), replicas in sync and replicas of each partition, as last told."""
        found: dict[str, tuple[int, list[int], list[int]]] = {}
        for line in self.lines():
            found |= {name: (x[0], x[1], x[2]) for name, x in line.get("partitions", {}).items()}
        return found

    def placement(self) -> list[Replica]:
        """Where each replica of its topics stands, as the brokers that answer tell; futures of moves are left out."""
        return [replica for replica, future in self.logs()[1] if not future]

    def logs(self) -> tuple[float, list[tuple[Replica, bool]]]:
        """Every log of its topics, and whether it is a copy that a move within its broker makes; with the time of the answer."""
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
        """What is set on each broker itself, dynamically: throttles, cordons."""
        return dict(json.loads(self._ask("settings").splitlines()[-1])["settings"])

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Have a partition reassigned, as a person's own tool does."""
        self._ask("reassign", topic, str(partition), ",".join(str(broker) for broker in replicas))

    def configs(self) -> dict[str, dict[str, str]]:
        """What is set on each topic itself."""
        return dict(json.loads(self._ask("configs").splitlines()[-1])["configs"])

    def refused(self) -> dict[str, str]:
        """Partitions for which a producer gave a record up, and the last error that it got."""
        return {line["failed"]: line["error"] for line in self.lines() if "failed" in line}

    def drop(self, topic: Topic) -> None:
        """Delete a topic to which nothing is written any more."""
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
        # The kubelet keeps a long line in pieces, and counts each of them.
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
) -> Iterator[Load]:
    """Make topics and write to them all the while.

    Args:
        lab: where.
        image: Spindle's, which has all that the client needs.
        topics: to be made; ``there``: they are there already.
        rate: records per partition and second.
        size: bytes of a record.
        fill: MiB that are written to each topic first.
        keep: whether the topics stay when everything is read back.
        away_from: nodes that are going to lose their power.
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
    }
    pod = client_pod(lab, name, image, _PROGRAM, settings, "produce")
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
        # SIGUSR1 has it say where each of its threads is.
        lab.kubectl("exec", name, "--", "sh", "-c", "kill -USR1 1; sleep 1", check=False)
        print(lab.kubectl("logs", name, "--tail=150", check=False))
        raise
    finally:
        lab.kubectl("delete", "pod", name, "--wait=false", "--ignore-not-found")


def make_topic(lab: Lab, topic: Topic) -> None:
    """Make a topic as a user does."""
    lab.spindle(
        *("topic", "create", topic.name, "-n", lab.namespace, "-c", CLUSTER),
        *("--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)),
        *("--config", f"min.insync.replicas={topic.min_isr}"),
        *(part for setting in topic.config for part in ("--config", setting)),
    )
