"""What is refused of listeners before brokers are restarted for it: node ports that overlap, and hosts that are none."""

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.listeners import of_broker
from spindle.config.listeners_check import is_host, refused_listeners
from spindle.config.preview import ROLL, RUNNING, PreviewChange, preview
from tests.model.world import World, quickstart


def spec(*listeners: dict[str, Any], replicas: int = 3) -> KafkaClusterSpec:
    asked = quickstart(listeners=list(listeners))["spec"]
    asked["brokerPools"][0]["replicas"] = replicas
    return KafkaClusterSpec.model_validate(asked)


def nodes(name: str, base: int, port: int = 9096) -> dict[str, Any]:
    return {"name": name, "port": port, "type": "nodeport", "nodePortBase": base}


def named(template: str) -> dict[str, Any]:
    return {"name": "outside", "port": 9097, "type": "loadbalancer", "advertisedHostTemplate": template}


def test_bases_whose_ports_overlap_are_refused_with_a_distance_that_is_enough() -> None:
    (found,) = refused_listeners(spec(nodes("a", 31000), nodes("b", 31002, 9097)))
    assert (found.field, found.key) == ("spec.listeners[b].nodePortBase", "b.nodePortBase")
    assert "listener a (31000 to 31002" in found.message
    assert "31000 and 31100" in found.way_out


def test_bases_that_are_further_apart_than_the_highest_node_id_are_taken() -> None:
    apart = spec(nodes("a", 31000), nodes("b", 31003, 9097))
    assert refused_listeners(apart) == ()
    # Broker 3 of a former, larger cluster still exists.
    (found,) = refused_listeners(apart, highest=3)
    assert "more than 3 apart" in found.way_out


def test_a_base_from_which_the_last_broker_gets_no_port_is_refused() -> None:
    (found,) = refused_listeners(spec(nodes("a", 65534)))
    assert "65536" in found.message


@given(
    bases=st.lists(st.integers(1024, 65535), min_size=1, max_size=8, unique=True),
    replicas=st.integers(1, 200),
)
def test_what_is_taken_gives_every_broker_of_every_listener_its_own_port(
    bases: list[int], replicas: int
) -> None:
    asked = spec(*(nodes(f"l{i}", base, 9500 + i) for i, base in enumerate(bases)), replicas=replicas)
    ports = [base + broker for base in bases for broker in range(replicas)]
    fine = len(set(ports)) == len(ports) and max(ports) <= 65535
    assert (refused_listeners(asked) == ()) == fine


@pytest.mark.parametrize(
    "template",
    [
        "..{nodeId}",
        "broker-{nodeId}..example.com",
        "-{nodeId}.example.com",
        "{nodeId}-.example.com",
        "broker-{nodeId}.example.com.",
        "broker.{nodeId}",
        "10.0.{nodeId}",
        "10.0.0.0{nodeId}",
        "10.0.0.25{nodeId}",
        f"{'a' * 62}-{{nodeId}}.example.com",
        ".".join(["a" * 60] * 4) + "-{nodeId}.example.com",
    ],
)
def test_a_template_that_gives_no_host_is_refused(template: str) -> None:
    (found,) = refused_listeners(spec(named(template), replicas=12))
    assert found.field == "spec.listeners[outside].advertisedHostTemplate"
    assert "neither a DNS name nor an IP address" in found.message
    assert "broker-{nodeId}.kafka.example.com" in found.way_out


@pytest.mark.parametrize(
    "template", ["broker-{nodeId}.kafka.example.com", "{nodeId}.example.com", "b{nodeId}", "10.0.0.{nodeId}"]
)
def test_a_template_that_gives_hosts_is_taken(template: str) -> None:
    assert refused_listeners(spec(named(template), replicas=12)) == ()


@given(st.from_regex(r"([a-z0-9.-]|\{nodeId\}){1,30}", fullmatch=True), st.integers(1, 300))
def test_every_broker_has_a_host_if_a_template_is_taken(template: str, replicas: int) -> None:
    if refused_listeners(spec(named(template), replicas=replicas)) == ():
        for broker in range(replicas):
            host = of_broker(template, broker)
            assert is_host(host)
            if host.replace(".", "").isdecimal():
                ipaddress.IPv4Address(host)


def test_a_bootstrap_host_that_is_none_is_refused() -> None:
    (found,) = refused_listeners(spec({**named("b-{nodeId}.x.org"), "bootstrap": {"host": "kafka.1"}}))
    assert found.field == "spec.listeners[outside].bootstrap.host"


def test_a_running_cluster_keeps_its_spec_until_the_bases_are_apart() -> None:
    world = World.of(listeners=[nodes("a", 31000)])
    world.settle()
    world.cluster["spec"]["listeners"] = [nodes("a", 31000), nodes("b", 31001, 9097)]
    world.settle()
    (wait,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "InvalidConfig"]
    assert wait["object"] == "KafkaCluster/demo/b.nodePortBase"
    assert "the previous spec stays in effect" in wait["message"]
    assert not [s for s in world.all("Service") if s["metadata"]["name"].endswith("-b")]


def test_the_preview_says_which_changes_of_listeners_restart_brokers() -> None:
    old = spec(named("b-{nodeId}.x.org"), nodes("gone", 31000))
    new = spec(
        named("b-{nodeId}.y.org") | {"annotations": {"a": "b"}, "loadBalancerSourceRanges": ["10.0.0.0/8"]},
        {"name": "inside", "port": 9095},
    )
    assert set(preview(old, new)) == {
        PreviewChange("listeners[gone]", "all brokers", ROLL),
        PreviewChange("listeners[inside]", "all brokers", ROLL),
        PreviewChange("listeners[outside].advertisedHostTemplate", "all brokers", ROLL),
        PreviewChange("listeners[outside].annotations", "Services", RUNNING),
        PreviewChange("listeners[outside].loadBalancerSourceRanges", "Services", RUNNING),
    }
