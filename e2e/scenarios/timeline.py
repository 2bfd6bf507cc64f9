"""Timeline of a scenario: observes its objects and prints a table with the seconds since its first mark.

Every fact gets the time at which this process observes it, by one clock, so the times in one table can be subtracted.
"""

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from e2e.scenarios.lab import CLUSTER, Lab

_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")


@dataclass(frozen=True, order=True)
class Fact:
    """An observed change.

    Attributes:
        at: seconds since the epoch.
        kind: mark, verdict, disk (state), fill (usage level), spec (of a disk), event, condition, waiting, pod, journal, or kafka.
        subject: what it is about: ``demo-broker-1/disk0``, a pod, a condition.
        text: its new value.
    """

    at: float
    kind: str
    subject: str
    text: str


class Timeline:
    """Records facts until it is closed."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._facts: list[Fact] = []
        self._known: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._closed = False
        readers: Mapping[str, Callable[[Any, bool], None]] = {
            "kafkabrokers.spindle.dev": self._broker,
            "kafkaclusters.spindle.dev": self._cluster,
            "pods": self._pod,
            "events": self._event,
            "configmaps": self._journal,
        }
        for kind, read in readers.items():
            threading.Thread(target=self._watch, args=(kind, read), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close()
        if error is not None:
            print(self.table())

    def close(self) -> None:
        """Stop recording."""
        self._closed = True
        for process in self._processes:
            process.kill()
            process.wait()

    # -- reading it ------------------------------------------------------------------------------------------------

    def mark(self, what: str) -> float:
        """Record an action of the scenario; returns the time."""
        now = time.time()
        self._add(Fact(now, "mark", "", what))
        return now

    def facts(self, since: float | None = None) -> list[Fact]:
        """All facts since a given time, by default the first mark, in order."""
        with self._lock:
            facts = sorted(self._facts)
        begin = self._begin(facts) if since is None else since
        return [fact for fact in facts if fact.at >= begin]

    def first(self, kind: str, text: str, subject: str = "", since: float | None = None) -> float | None:
        """Time of the first fact of a kind whose text (and subject) match a pattern."""
        return next(
            (
                fact.at
                for fact in self.facts(since)
                if fact.kind == kind and re.search(text, fact.text) and re.search(subject, fact.subject)
            ),
            None,
        )

    def until(
        self, kind: str, text: str, subject: str = "", *, since: float | None = None, seconds: float = 60
    ) -> float:
        """Wait for a fact; returns its time.

        Raises:
            LabError: it did not come.
        """

        def seen() -> bool:
            return self.first(kind, text, subject, since) is not None

        self._lab.until(f"{kind} {subject} {text}", seen, seconds)
        found = self.first(kind, text, subject, since)
        assert found is not None
        return found

    def add_kafka(self, lines: list[dict[str, Any]]) -> None:
        """Add what a load reports about Kafka itself."""
        state: dict[str, Any] = {}
        before = ""
        for line in lines:
            if "partitions" not in line:
                continue
            state |= line["partitions"]
            short = sum(len(isr) < len(replicas) for _, isr, replicas in state.values())
            none = sum(leader < 0 for leader, _, _ in state.values())
            sizes = Counter(len(replicas) for _, _, replicas in state.values())
            text = f"{short} of {len(state)} partitions with a replica out of sync, {none} without a leader, "
            text += f"{len(line['moving'])} being reassigned, replicas " + ", ".join(
                f"{count}x{size}" for size, count in sorted(sizes.items())
            )
            if text != before:
                self._add(Fact(line["at"], "kafka", "", text))
            before = text

    def table(self, since: float | None = None) -> str:
        """All facts, one line each: seconds since the first mark, kind, subject, text."""
        facts = self.facts(since)
        begin = self._begin(facts)
        rows = [f"{f.at - begin:8.1f}  {f.kind:10}{f.subject:30}  {f.text[:150]}" for f in facts]
        return "\n".join(["seconds   what", *rows])

    @staticmethod
    def _begin(facts: list[Fact]) -> float:
        return next((fact.at for fact in facts if fact.kind == "mark"), facts[0].at if facts else 0.0)

    # -- watching --------------------------------------------------------------------------------------------------

    def _watch(self, kind: str, read: Callable[[Any, bool], None]) -> None:
        command = [*self._lab.kubectl_command, "--namespace", self._lab.namespace, "get", kind]
        command += ["--watch", "--output-watch-events", "--output=json"]
        while not self._closed:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self._lab.environment(),
            )
            self._processes.append(process)
            for change in _documents(process):
                if change["type"] not in _CHANGES:
                    break  # an error of the watch itself; it is restarted
                read(change["object"], change["type"] == "DELETED")
            process.kill()
            process.wait()
            threading.Event().wait(0.5)

    def _add(self, fact: Fact) -> None:
        with self._lock:
            self._facts.append(fact)

    def _see(self, kind: str, subject: str, text: str) -> None:
        """Add a fact if it differs from the previous one."""
        if self._known.get((kind, subject)) != text:
            self._known[kind, subject] = text
            self._add(Fact(time.time(), kind, subject, text))

    def _broker(self, broker: Any, gone: bool) -> None:
        name = broker["metadata"]["name"]
        if gone:
            self._see("disk", name, "KafkaBroker deleted")
            return
        status = broker.get("status") or {}
        observed = status.get("observed") or {}
        for disk in observed.get("disks", ()):
            text = f"{disk.get('verdict')} {disk.get('reason') or ''} ({disk.get('content')})"
            self._see("verdict", f"{name}/{disk['name']}", text)
        for disk in status.get("disks", ()):
            text = f"{disk.get('state')}, {disk.get('replicas', '?')} replicas"
            self._see("disk", f"{name}/{disk['name']}", text)
            if usage := disk.get("usage"):
                text = f"{usage.get('level')} {usage.get('reason')}, {usage.get('usedPercent')} %"
                self._see("usage", f"{name}/{disk['name']}", text)
        for disk in broker["spec"].get("disks", ()):
            text = f"{disk.get('mode', 'Active')} as {disk['directoryId']} on {disk.get('fsUuid', 'no file system')}"
            self._see("spec", f"{name}/{disk['name']}", text)
        states = Counter(move.get("state") for move in observed.get("moves", ()))
        moves = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        asked = len(broker["spec"].get("moves", ()))
        if asked or moves or ("moves", name) in self._known:
            self._see("moves", name, f"{asked} requested; {moves or 'none'}")
        self._see("broker", name, f"{status.get('state')}")

    def _cluster(self, cluster: Any, gone: bool) -> None:
        if cluster["metadata"]["name"] != CLUSTER or gone:
            return
        status = cluster.get("status") or {}
        for condition in status.get("conditions", ()):
            text = f"{condition['status']} {condition['reason']}: {condition.get('message', '')}"
            self._see("condition", condition["type"], text)
        waits = sorted({f"{wait['reason']} {wait['object']}" for wait in status.get("waiting", ())})
        self._see("waiting", "", "; ".join(waits) or "nothing")

    def _pod(self, pod: Any, gone: bool) -> None:
        labels = pod["metadata"].get("labels") or {}
        if labels.get("spindle.dev/role") != "broker":
            return
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"][:8]
        status = pod.get("status") or {}
        conditions = {c["type"]: c["status"] for c in status.get("conditions", ())}
        claims = [v["name"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
        restarts = sum(c.get("restartCount", 0) for c in status.get("containerStatuses", ()))
        if gone:
            text = "gone"
        elif "deletionTimestamp" in pod["metadata"]:
            text = "being deleted"
        elif conditions.get("Ready") == "True":
            text = "Ready"
        else:
            text = f"{status.get('phase')}, not ready"
        self._see("pod", name, f"{uid} with {'+'.join(sorted(claims))}, {restarts} restarts: {text}")

    def _event(self, event: Any, gone: bool) -> None:
        if gone or event["involvedObject"]["kind"] not in {"KafkaBroker", "KafkaCluster"}:
            return
        subject = f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}"
        key = f"{event['metadata']['uid']}/{event.get('count', 1)}"
        text = f"{event['reason']}: {event.get('message', '')}"
        if self._known.get(("event", key)) is None:
            self._known["event", key] = text
            self._add(Fact(time.time(), "event", subject, text))

    def _journal(self, config: Any, gone: bool) -> None:
        if config["metadata"]["name"] != f"{CLUSTER}-moves":
            return
        data: dict[str, Any] = {}
        for value in (config.get("data") or {}).values():
            data |= json.loads(value)
        counts = {key: len(value) for key, value in data.items() if isinstance(value, list)}
        text = ", ".join(f"{count} {key}" for key, count in sorted(counts.items()) if count)
        self._see("journal", "", "gone" if gone else text or "empty")


def _documents(process: "subprocess.Popen[str]") -> Iterator[Any]:
    """JSON documents that a process prints, one per line."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)
