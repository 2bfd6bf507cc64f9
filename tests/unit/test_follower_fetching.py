"""``racks.followerFetching``: the brokers' setting, what it refuses, and what clients are told of their racks."""

import base64
from typing import Any

import pytest
from typer.testing import CliRunner

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.policy import RACK_AWARE, REPLICA_SELECTOR
from spindle.config.racks_check import refused_racks
from spindle.config.server_properties import parsed
from spindle.config.spec_settings import refused_settings
from spindle.model.actions import Evict, Patch
from spindle.security.client_racks import KEY
from spindle_cli import main
from spindle_cli.kube import Kube
from tests.model.world import World, quickstart
from tests.unit import cli_samples as samples
from tests.unit.test_cli_main import FakeKube

ON = {"racks": {"followerFetching": True}}


def spec(**fields: Any) -> KafkaClusterSpec:
    return KafkaClusterSpec.model_validate(quickstart(**fields)["spec"])


def settled(**fields: Any) -> World:
    world = World.of(**fields)
    world.settle()
    return world


def properties(world: World, node_id: int) -> dict[str, str]:
    found = world.get("ConfigMap", names.config_map("demo", node_id))
    return parsed(found["data"]["server.properties"])


def told(world: World, secret: str) -> str | None:
    stored = (world.get("Secret", secret).get("data") or {}).get(KEY)
    return None if stored is None else base64.b64decode(stored).decode()


def test_brokers_choose_by_rack_and_controllers_do_not() -> None:
    world = settled(**ON)

    assert [properties(world, broker).get(REPLICA_SELECTOR) for broker in range(3)] == [RACK_AWARE] * 3
    assert REPLICA_SELECTOR not in properties(world, names.controller_id(0))


def test_turned_on_it_restarts_each_broker_once() -> None:
    world = settled()
    world.cluster["spec"]["racks"] = {"followerFetching": True}
    down: list[str] = []
    for _ in range(80):
        down += [action.pod for action in world.reconcile().actions if isinstance(action, Evict)]
        world.breathe()

    assert sorted(down) == [names.pod_name("demo", broker) for broker in range(3)]


@pytest.mark.parametrize("where", ["spec.config", "spec.brokerPools[main].config"])
def test_another_class_is_refused_with_its_field(where: str) -> None:
    config = {"config": {REPLICA_SELECTOR: "my.Selector"}}
    pool = quickstart()["spec"]["brokerPools"][0]
    fields = config if where == "spec.config" else {"brokerPools": [pool | config]}

    (found,) = refused_racks(spec(**fields, **ON))

    assert found.field == where
    assert found.way_out == f"remove {REPLICA_SELECTOR} from {where}, or remove spec.racks.followerFetching"
    assert refused_racks(spec(**fields)) == ()


def test_the_same_class_is_not_refused() -> None:
    assert refused_racks(spec(config={REPLICA_SELECTOR: RACK_AWARE}, **ON)) == ()


def test_misspelled_settings_are_still_found() -> None:
    """Kafka's own class reads no setting of its own, so it excuses none."""
    asked = spec(config={"my.setting": "1"}, **ON)

    assert [each.key for each in refused_settings(asked, asked.version)] == ["my.setting"]


def test_a_refused_spec_restarts_nothing() -> None:
    world = settled()
    world.cluster["spec"] |= {**ON, "config": {REPLICA_SELECTOR: "org.apache.kafka.common.replica.Other"}}
    world.allowed = world.allowed.__class__(classes=("*",))
    for _ in range(6):
        assert not [action for action in world.reconcile().actions if isinstance(action, Evict)]
        world.breathe()

    (wait,) = (w for w in world.cluster["status"]["waiting"] if w["reason"] == "InvalidConfig")
    assert wait["message"].startswith("spec.config: replica.selector.class names another class")


def test_clients_are_told_the_racks_in_their_secrets() -> None:
    world = settled(**ON)

    assert told(world, "demo-admin") == "zone-a\nzone-b\nzone-c\n"
    assert not [action for action in world.reconcile().actions if isinstance(action, Patch)]


def test_a_new_certificate_does_not_lose_them() -> None:
    world = settled(**ON)
    del world.objects["Secret", "demo-admin"]["data"]  # as an apply of the new content leaves it
    world.settle()

    assert told(world, "demo-admin") == "zone-a\nzone-b\nzone-c\n"


def test_turned_off_the_key_goes() -> None:
    world = settled(**ON)
    world.cluster["spec"]["racks"] = {}
    world.settle()

    assert told(world, "demo-admin") is None


@pytest.mark.parametrize("on", [True, False])
def test_the_command_lists_the_values(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    cluster = samples.ready()
    cluster["spec"]["racks"] = {"followerFetching": on}
    monkeypatch.setattr(Kube, "connect", lambda namespace=None: FakeKube(cluster))

    done = CliRunner().invoke(main.app, ["racks"])

    assert done.exit_code == 0
    assert done.stdout.count("zone-b") == 2
    assert ("client.racks of Secret" in done.stdout) is on
    assert ("spec.racks.followerFetching is false" in done.stdout) is not on
