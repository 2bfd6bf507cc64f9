"""NetworkPolicies: who may reach which port."""

from typing import Any

from tests.model.world import World


def running(**spec: Any) -> World:
    world = World.of(**spec)
    world.settle()
    return world


def reached(world: World, name: str) -> dict[int, list[dict[str, Any]] | None]:
    """Port → who may reach it, None for anybody."""
    policy = world.get("NetworkPolicy", name)
    return {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}


def served(world: World) -> set[int]:
    """Ports of all Services."""
    return {port["port"] for service in world.all("Service") for port in service["spec"]["ports"]}


def test_there_are_none_unless_they_are_asked_for() -> None:
    assert running().all("NetworkPolicy") == ()


def test_ports_between_nodes_are_for_the_cluster_and_for_spindle() -> None:
    world = running(
        security={"networkPolicies": True}, listeners=[{"name": "inside", "port": 9095, "auth": "scram"}]
    )
    own = {"podSelector": {"matchLabels": {"spindle.dev/cluster": "demo"}}}
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "spindle-system"}}}
    brokers = reached(world, "demo-brokers")
    assert brokers == {9091: [own, operator], 9092: None, 9095: None, 9404: None}
    assert reached(world, "demo-controllers") == {9090: [own], 9404: None}
    assert not world.reconcile().actions


def test_metrics_that_are_disabled_have_no_port_in_policies_and_services() -> None:
    world = running(security={"networkPolicies": True})
    assert 9404 in reached(world, "demo-brokers")
    assert 9404 in served(world)

    world.cluster["spec"]["metrics"] = {"enabled": False}
    world.settle()
    assert 9404 not in {*reached(world, "demo-brokers"), *reached(world, "demo-controllers"), *served(world)}
    # An ingress rule without ports would admit everybody to every port.
    assert all(rule["ports"] for each in world.all("NetworkPolicy") for rule in each["spec"]["ingress"])
    offered = [
        port["containerPort"]
        for pod in world.all("Pod")
        for container in pod["spec"]["containers"]
        for port in container["ports"]
    ]
    assert offered
    assert 9404 not in offered

    world.cluster["spec"]["metrics"] = {"enabled": True}
    world.settle()
    assert 9404 in reached(world, "demo-controllers")
    assert 9404 in served(world)


def test_sparks_ports_are_for_its_own_pods_where_it_has_executors() -> None:
    world = running()
    world.cluster["spec"]["rebalance"] = {"engine": {"image": "job:1", "executors": {"count": 2}}}
    world.reconcile()
    (policy,) = world.all("NetworkPolicy")
    job = {"spindle.dev/cluster": "demo", "spindle.dev/role": "rebalance"}
    assert policy["spec"]["podSelector"]["matchLabels"] == job
    own = {"podSelector": {"matchLabels": job}}
    assert reached(world, "demo-rebalance") == {7078: [own], 7079: [own]}
    world.cluster["spec"]["rebalance"] = {"engine": {"image": "job:1"}}
    world.reconcile()
    assert world.all("NetworkPolicy") == ()


def test_they_go_when_they_are_not_asked_for_any_more_and_others_stay() -> None:
    world = running(security={"networkPolicies": True})
    labels = {"spindle.dev/cluster": "demo"}
    world.put({"kind": "NetworkPolicy", "metadata": {"name": "mine", "labels": labels}, "spec": {}})
    world.cluster["spec"]["security"] = {}
    world.settle()
    assert [policy["metadata"]["name"] for policy in world.all("NetworkPolicy")] == ["mine"]


def test_what_cannot_be_read_is_left_alone() -> None:
    world = running(security={"networkPolicies": True})
    world.unknown = frozenset({"networkpolicies"})
    assert not world.reconcile().actions
