"""A model cluster whose brokers have settings: the file that they were started with, and what they were told since (KIP-226)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spindle.api import names
from spindle.config.dynamic_config import ON_BROKERS, ON_CLUSTER
from spindle.model.actions import Action, Tune
from spindle.model.config_values import ConfigValues
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.start_progress import Start
from spindle.model.times import stamp
from spindle.model.view import KafkaView
from tests.model.world import World

THREADS = "num.io.threads"
DEFAULTS = {THREADS: "8", "log.retention.ms": "1", "num.network.threads": "3"}


@dataclass
class ConfiguredWorld(World):
    """Dynamic settings outlive a broker's process, as they are in the cluster's metadata.

    Attributes:
        own: by broker, what was set on it while it ran.
        shared: the cluster's defaults that were set.
        files: by UID of the pod, what its Kafka was started with.
        bad: values that no running broker takes.
        silent: brokers that cannot be asked for their settings.
        turned_down: orders that Kafka did not take; it takes all of one or nothing.
    """

    own: dict[int, dict[str, str]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    bad: set[tuple[str, str | None]] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    turned_down: list[Tune] = field(default_factory=list)

    def _created(self, obj: dict[str, Any]) -> None:
        super()._created(obj)
        if obj["kind"] == "Pod" and names.LABEL_NODE_ID in obj["metadata"]["labels"]:
            node_id = int(obj["metadata"]["labels"][names.LABEL_NODE_ID])
            text = self.get("ConfigMap", names.config_map("demo", node_id))["data"]["server.properties"]
            lines = (line.split("=", 1) for line in text.splitlines() if "=" in line)
            self.files[obj["metadata"]["uid"]] = {key.strip(): value.strip() for key, value in lines}

    def standing(self, broker: int) -> dict[str, ConfigValues]:
        """What a broker says of its settings."""
        file = self.files[self.get("Pod", f"demo-broker-{broker}")["metadata"]["uid"]]
        own = self.own.get(broker, {})
        return {
            key: ConfigValues(own.get(key), self.shared.get(key), file.get(key), DEFAULTS.get(key))
            for key in ON_BROKERS | ON_CLUSTER
        }

    def kafka(self) -> KafkaView:
        view = super().kafka()
        if view.error:
            return view
        asked = [
            b for b, broker in (view.brokers or {}).items() if not broker.fenced and b not in self.silent
        ]
        return replace(view, standing={broker: self.standing(broker) for broker in asked})

    def act(self, action: Action) -> None:
        if not isinstance(action, Tune):
            super().act(action)
        elif not self._takes(action):
            self.turned_down.append(action)
        else:
            there = self.shared if action.broker is None else self.own.setdefault(action.broker, {})
            _set(there, action.values)

    def _takes(self, action: Tune) -> bool:
        if any((key, value) in self.bad for key, value in action.values.items()):
            return False
        if action.broker is None or THREADS not in action.values:
            return True
        now = self.standing(action.broker)[THREADS]
        then = replace(now, own=action.values[THREADS])
        before, after = int(now.effective or 0), int(then.effective or 0)
        return before // 2 <= after <= 2 * before  # DynamicThreadPool.validate


def _set(there: dict[str, str], values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            there.pop(key, None)
        else:
            there[key] = value


def crash(world: World, name: str, times: int = 3) -> None:
    """Kafka in a pod has ended so often, and its container waits for the next try."""
    pod = world.get("Pod", name)
    entry = pod["status"]["containerStatuses"][0]
    ended = {"exitCode": 1, "message": "Invalid value", "finishedAt": stamp(world.now)}
    entry |= {
        "restartCount": times,
        "ready": False,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] in ("Ready", names.READINESS_GATE):
            condition["status"] = "False"
    world.put(pod)


def starting(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[int, Start]:
    """What brokers of a world tell of their starts, to be filled in."""
    told: dict[int, Start] = {}
    seen = World._snapshot

    def look(self: World) -> ClusterSnapshot:
        return replace(seen(self), starts=dict(told))

    monkeypatch.setattr(World, "_snapshot", look)
    return told
