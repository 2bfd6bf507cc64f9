"""Nodes that go and come back, in whatever order, wherever the operator dies: no claim goes but by rules 5 and 14, and nothing is lost."""

import contextlib
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.api import names
from spindle.model.actions import Action, Delete
from spindle.model.node_loss import OUT_OF_SERVICE
from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import all_in
from tests.model.kafka import path_of
from tests.model.store import ConflictError

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely


@dataclass
class Nodes(Checked):
    """A world whose nodes lose their power.

    Attributes:
        off: brokers whose node is off.
    """

    off: set[int] = field(default_factory=set)

    def act(self, action: Action) -> None:
        if isinstance(action, Delete) and action.kind == "PersistentVolumeClaim":
            self._before_it_is_given_up(action.name)
        super().act(action)

    def _before_it_is_given_up(self, claim: str) -> None:
        """Rule 14: somebody said that the node is gone, and a person agreed."""
        broker = int(self.get("PersistentVolumeClaim", claim)["metadata"]["annotations"][names.ANN_NODE_ID])
        spec = self.get("KafkaBroker", names.broker_name("demo", broker))["spec"]
        node = self.objects.get(("Node", spec["node"]))
        said = node is None or any(t["key"] == OUT_OF_SERVICE for t in node["spec"].get("taints") or ())
        if (
            not said
            or (spec.get("acceptDataLoss") or {}).get("node") != spec["node"]
            or broker not in self.off
        ):
            self.broken.append(f"rule 14: {claim} goes, and node {spec['node']} is not gone for good")

    def node(self, broker: int) -> str:
        return str(self.get("KafkaBroker", names.broker_name("demo", broker))["spec"].get("node") or "")

    def power_off(self, broker: int) -> None:
        node = self.objects.get(("Node", self.node(broker)))
        if node is None or broker in self.off:
            return
        self.off.add(broker)
        self.silent.add(node["metadata"]["name"])
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        pod = self.objects.get(("Pod", names.pod_name("demo", broker)))
        if pod is not None and pod["spec"].get("nodeName") == node["metadata"]["name"]:
            self._end(pod["metadata"]["uid"], clean=False)

    def power_on(self, broker: int) -> None:
        node = self.objects.get(("Node", self.node(broker)))
        if node is None or broker not in self.off:
            return
        self.off.discard(broker)
        self.silent.discard(node["metadata"]["name"])
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        pod = self.objects.get(("Pod", names.pod_name("demo", broker)))
        if pod is not None and (pod.get("status") or {}).get("containerStatuses"):
            self.crash(broker)


@cache
def _settled(brokers: int) -> Nodes:
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Nodes.of("abcabc"[:brokers], brokerPools=[pool])
    world.settle(80)
    for index in range(4):
        replicas = tuple((index + i) % brokers for i in range(3))
        world.kafkas.create("t", index, replicas, all_in(path_of(f"disk{index % 2}")))
    world.settle()
    return world


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "off",
                "on",
                "taint",
                "taint",
                "untaint",
                "agree",
                "agree",
                "another",
                "spare",
                "passes",
                "passes",
            ]
        ),
        st.integers(0, 5),
        st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=10),
    ),
    min_size=4,
    max_size=16,
)


def _passes(world: Nodes, deaths: list[int | None]) -> None:
    for death in deaths:
        with contextlib.suppress(ConflictError):
            world.reconcile(stop_after=death)
        world.breathe()
        # A broker that lives on another node by now is not off any more.
        world.off = {b for b in world.off if world.node(b) in ("", *world.silent)}


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([3, 6]), _STEPS)
def test_nothing_is_given_up_but_by_evidence_and_word(
    brokers: int, steps: list[tuple[str, int, list[int | None]]]
) -> None:
    world = _settled(brokers).fork()
    assert isinstance(world, Nodes)
    for step, number, deaths in steps:
        broker = number % brokers
        node = world.objects.get(("Node", world.node(broker)))
        spec = world.get("KafkaBroker", names.broker_name("demo", broker))["spec"]
        if step == "off" and not world.off:
            world.power_off(broker)
        elif step == "on":
            world.power_on(broker)
        elif step in ("taint", "untaint") and node is not None:
            node["spec"]["taints"] = (
                [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}] if step == "taint" else []
            )
        elif step in ("agree", "another"):
            spec.setdefault("acceptDataLoss", {})["node"] = spec.get("node") if step == "agree" else "another"
        elif step == "spare" and ("Node", f"spare{broker % 3}") not in world.objects:
            world.add_node(f"spare{broker % 3}", f"zone-{'abc'[broker % 3]}", 3)
        _passes(world, deaths)
        assert world.broken == []
        assert world.kafkas.losses == []
    _passes(world, [None] * 20)
    assert world.broken == []
    assert world.kafkas.losses == []
    assert world.destroyed == []
