"""A broker without volumes does not get the node that another broker's volumes are on."""

from typing import Any

from spindle.api import names
from spindle.manifests.pods import broker_pod
from spindle.model.actions import Create, Evict
from spindle.model.node_inputs import ClusterInputs, NodeInputs, host_mark
from tests.model.nodes import avoided
from tests.model.world import World


def two_brokers(**scheduling: Any) -> World:
    """On the first two of three nodes, each of which has disks for three brokers."""
    pool = {
        "name": "main",
        "replicas": 2,
        "disks": {"count": 2, "size": "100Gi", "storageClass": "local-disks"},
    }
    world = World.of("aaa", disks=7, brokerPools=[pool], scheduling=scheduling)
    world.settle()
    if not scheduling.get("sharedNodes"):
        assert [node_of(world, broker) for broker in (0, 1)] == ["node1", "node2"]
    return world


def node_of(world: World, broker: int) -> str | None:
    node: str | None = world.get("Pod", f"demo-broker-{broker}")["spec"].get("nodeName")
    return node


def stop(world: World, broker: int, *, stopped: bool = True) -> None:
    world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]["maintenance"] = {"stopped": stopped}
    world.settle()


def one_more(world: World) -> None:
    """A third broker, up to its pod."""
    world.cluster["spec"]["brokerPools"][0]["replicas"] = 3
    for _ in range(20):
        if ("Pod", "demo-broker-2") in world.objects:
            return
        world.reconcile()
    raise AssertionError("no pod")


def evicted_for_the_list(world: World) -> list[str]:
    """Other pods restart meanwhile: their configuration depends on the number of brokers."""
    actions = world.reconcile().actions
    return [a.pod for a in actions if isinstance(a, Evict) and a.reason == "SchedulingChanged"]


def test_a_new_broker_leaves_the_node_of_a_stopped_one_to_it() -> None:
    world = two_brokers()
    stop(world, 0)
    one_more(world)
    assert avoided(world.get("Pod", "demo-broker-2")) == {"node1", "node2"}
    world.settle()
    assert node_of(world, 2) == "node3"
    stop(world, 0, stopped=False)
    assert world.running("broker") == [0, 1, 2]
    assert node_of(world, 0) == "node1"


def test_a_broker_with_volumes_avoids_no_node() -> None:
    world = two_brokers()
    del world.objects["Pod", "demo-broker-0"]
    world.reconcile()
    assert avoided(world.get("Pod", "demo-broker-0")) == set()


def test_brokers_that_share_nodes_avoid_none() -> None:
    world = two_brokers(sharedNodes=True)
    one_more(world)
    assert avoided(world.get("Pod", "demo-broker-2")) == set()


def test_a_pod_that_finds_no_node_is_recreated_when_the_list_changes_and_no_other_pod_is() -> None:
    world = two_brokers()
    one_more(world)
    world.get("Node", "node3")["spec"]["unschedulable"] = True
    world.breathe()
    pod = world.get("Pod", "demo-broker-2")
    assert pod["status"]["conditions"][0]["type"] == "PodScheduled"
    # One of an earlier version, which knows no such list.
    del pod["metadata"]["annotations"][names.ANN_AVOIDED], pod["spec"]["affinity"]["nodeAffinity"]
    assert evicted_for_the_list(world) == ["demo-broker-2"]
    assert all(mark["nodeId"] != 2 for mark in world.cluster["status"].get("takingDown") or ())
    world.breathe()
    (made,) = [action for action in world.reconcile().actions if isinstance(action, Create)]
    assert avoided(made.object) == {"node1", "node2"}  # type: ignore[arg-type]
    for _ in range(5):
        world.breathe()
        assert not evicted_for_the_list(world)


def test_no_pod_with_a_node_is_restarted_for_the_list() -> None:
    world = two_brokers()
    for broker in (0, 1):
        pod = world.get("Pod", f"demo-broker-{broker}")
        pod["metadata"]["annotations"][names.ANN_AVOIDED] = ",".join(
            map(host_mark, ("node1", "node2", "node9"))
        )
        world.unready.add(f"demo-broker-{broker}")
    one_more(world)
    world.settle()
    assert not evicted_for_the_list(world)
    assert world.running("broker") == [0, 1, 2]


def test_thousands_of_nodes_fit_into_the_annotations_of_a_pod() -> None:
    hosts = tuple(f"{i:04}-{'x' * 58}" for i in range(5000))
    node = NodeInputs(node_id=0, server_properties="", disks=(), avoid=hosts)
    cluster = ClusterInputs(
        name="demo", namespace="n", uid="u", cluster_id="c", version="4.3.1", spindle_image="s"
    )
    notes = broker_pod(cluster, node)["metadata"]["annotations"]
    assert sum(len(key) + len(value) for key, value in notes.items()) < 200 * 1024
