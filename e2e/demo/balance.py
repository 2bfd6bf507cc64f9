"""The demo's chapters on balancing: data that uses some disks more than others, a proposal by the job, and the result of executing it.

Each part detects what an earlier run has done: the topic and its data, a proposal that is open or done.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster.layout import SPINDLE_IMAGE
from e2e.demo import picture
from e2e.demo.show import DemoError, Show
from spindle_cli.proposals import size

TOPIC: Final = "clicks"
PARTITIONS: Final = 24
MEGABYTES: Final = 240
_FILLER: Final = f"fill-{TOPIC}"
_PROGRAM: Final = Path(__file__).with_name("filler.py")
_MOVES_S: Final = 900
_DELETED_S: Final = 60
_SLACK: Final = 20_000_000  # bytes: indexes grow, too
_SHOWN: Final = 4  # moves of a proposal
_UNTIL: Final = "--for=jsonpath={.status.phase}="
_DISKS: Final = ("spindle", "disks", "-o", "json")
_OPEN: Final = ("Proposed", "Approved", "Executing")

Json = dict[str, Any]


class Balance:
    """The chapters.

    Args:
        show: prints it.
        cluster: name of the KafkaCluster.
        folder: folder for its files: the disk usage before, and the report.
    """

    def __init__(self, show: Show, cluster: str, folder: Path) -> None:
        self._show = show
        self._cluster = cluster
        self._before = folder / "before.json"
        self.report = folder / "rebalance.html"

    def begin(self) -> None:
        """Start to write, unless an earlier run did: a pod fills a topic while the next chapters run."""
        show, phase = self._show, self._phase_of_filler()
        if phase and phase != "Failed":
            return
        show.step("A pod writes to a topic that uses some disks more than others")
        if phase == "Failed":
            show.run("kubectl", "delete", "pod", _FILLER)
        address = show.ask("kubectl", "get", "skc", self._cluster, "-o", "jsonpath={.status.bootstrap}")
        manifest = self.report.with_name("fill.yaml")
        manifest.write_text(yaml.safe_dump(filler(self._cluster, address), sort_keys=False))
        show.run("kubectl", "create", "-f", str(manifest))

    def play(self) -> None:
        """Run all parts that are not done yet."""
        show = self._show
        found = self._newest()
        if not (found and _phase(found) == "Done" and self._before.exists()):
            self._filled()
            found = found if found and _phase(found) in _OPEN and self._before.exists() else self._propose()
            self._carry_out(found)
        else:
            show.step(f"Balancing: {found['metadata']['name']} was executed by an earlier run")
        self._result(self._newest() or found)

    def _filled(self) -> None:
        """Wait until everything is written."""
        show = self._show
        show.step(
            f"The pod that wrote meanwhile: {MEGABYTES} MB, each record acknowledged by every in-sync replica"
        )
        show.run("kubectl", "logs", "--follow", _FILLER)
        try:
            show.run("kubectl", "wait", f"{_UNTIL}Succeeded", f"pod/{_FILLER}", "--timeout=60s")
        except DemoError as error:
            raise DemoError(f"pod {_FILLER} could not write everything; its last output is above") from error

    def _phase_of_filler(self) -> str:
        """Phase of its pod; empty if it does not exist."""
        phase = ("-o", "jsonpath={.status.phase}", "--ignore-not-found")
        return self._show.ask("kubectl", "get", "pod", _FILLER, *phase).strip()

    def _propose(self) -> Json:
        show = self._show
        show.step("A run of the rebalance job, in a pod: samples of the agents, forecasts, a plan")
        show.run("spindle", "rebalance", "run", "--wait")
        found = self._newest()
        if found is None or _phase(found) not in _OPEN:
            raise DemoError(
                "the job proposed nothing; the reason is above, and `spindle rebalance report > report.html` has the details"
            )
        if not found["spec"].get("cost", {}).get("moves"):
            raise DemoError(
                f"{found['metadata']['name']} moves no replica, although some disks have several times the data of others"
            )
        # Not earlier: the old replicas of the backfill are deleted by now.
        show.keep(self._before, *_DISKS)
        return found

    def _carry_out(self, found: Json) -> None:
        show, name = self._show, found["metadata"]["name"]
        show.step("The proposal: cost, gain, and the reason of each move")
        show.run("spindle", "rebalance", "show", name, "--moves", str(_SHOWN))
        show.step("Approve it by its hash; each move is checked again before it starts")
        if not found["spec"].get("approved"):
            show.run("spindle", "rebalance", "approve", name, "--hash", found["spec"]["inputHash"])
        try:
            copying = "Kafka copies replicas; the next line comes when some of them are in place"
            show.run("spindle", "rebalance", "wait", name, "--timeout", str(_MOVES_S), silent=copying)
        except DemoError as error:
            raise DemoError(
                f"proposal {name} was not completed; `spindle rebalance show {name}` shows the state of each move. "
                "No data is lost: completed moves stay. Run `make demo` again for a new proposal"
            ) from error

    def _result(self, found: Json) -> None:
        show = self._show
        show.step("Before and after")
        before = self._before.read_text()
        show.say(
            "\nKafka deletes the old replica some time after a move (log.segment.delete.delay.ms, here one second)."
        )
        path = self._before.with_name("after.json")
        show.redirected(path, *_DISKS)
        after = self._until_deleted(picture.unused(before) + _SLACK)
        path.write_text(after)
        show.say()
        for line in picture.lines(before, after):
            show.say(line.rstrip())
        show.say()
        for line in price(found):
            show.say(line)
        show.keep(self.report, "spindle", "rebalance", "report")
        show.say(f"\nHTML report of the run: file://{self.report}")

    def _until_deleted(self, most: int) -> str:
        """The disks, once they hold at most this many bytes that belong to no replica; until then it prints how many remain."""
        begun = self._show.seconds
        while True:
            found = self._show.ask(*_DISKS)
            took, left = self._show.seconds - begun, picture.unused(found) - most
            if left <= 0 or took > _DELETED_S:
                return found  # the picture shows the rest
            self._show.say(f"{took:5.0f} s  {size(left)} of old replicas left to delete")

    def _newest(self) -> Json | None:
        """The cluster's latest proposal that is open or done; failed, stopped and expired ones do not count."""
        listed = json.loads(self._show.ask("kubectl", "get", "kafkarebalances", "-o", "json"))["items"]
        mine = [x for x in listed if x["spec"]["cluster"] == self._cluster and _phase(x) in (*_OPEN, "Done")]
        return max(mine, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)


def _phase(found: Json) -> str:
    return str((found.get("status") or {}).get("phase") or "Proposed")


def price(found: Json) -> list[str]:
    """Cost of executing a proposal, as lines."""
    spec, status = found["spec"], found.get("status") or {}
    cost = spec.get("cost", {})
    inter, intra = (size(cost.get(each, 0)) for each in ("bytesInter", "bytesIntra"))
    lines = [
        f"planned   {cost.get('moves', 0)} replicas: {inter} from broker to broker, {intra} from disk to disk",
        f"moved     {status.get('progress', '?')} moves, {size(status.get('movedBytes', 0))}",
    ]
    if status.get("startedAt") and status.get("endedAt"):
        took = datetime.fromisoformat(status["endedAt"]) - datetime.fromisoformat(status["startedAt"])
        lines.append(f"time      {took.total_seconds():.0f} s from start to end")
    if status.get("dropped"):
        lines.append(
            f"left out  {len(status['dropped'])}: spindle rebalance show {found['metadata']['name']} shows why"
        )
    return lines


def filler(cluster: str, address: str) -> Json:
    """The pod that fills the topic. It is kept after it has completed, so that a later run knows that the topic is filled."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _FILLER},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
            "containers": [
                {
                    "name": "filler",
                    "image": SPINDLE_IMAGE,
                    "command": [
                        "python3",
                        "-c",
                        _PROGRAM.read_text(),
                        TOPIC,
                        str(PARTITIONS),
                        str(MEGABYTES),
                    ],
                    "env": [{"name": "BOOTSTRAP", "value": address}],
                    "volumeMounts": [{"name": "credentials", "mountPath": "/etc/spindle/credentials"}],
                }
            ],
            "volumes": [
                {"name": "credentials", "secret": {"secretName": f"{cluster}-admin", "defaultMode": 0o440}}
            ],
        },
    }
