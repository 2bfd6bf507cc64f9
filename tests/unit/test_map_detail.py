"""What the map shows of one disk."""

import shlex
from typing import Any

import pytest

from spindle.api.broker import KafkaBroker
from spindle_cli.copied import Typed
from spindle_cli.disk_map import detail
from tests import map_samples
from tests.unit import cli_samples

RAW = cli_samples.broker(1)


def broker(**fields: Any) -> KafkaBroker:
    return KafkaBroker.parse(
        cli_samples.broker(1, cli_samples.disk(1, "disk0"), cli_samples.disk(1, "disk1", **fields))
    )


def shown(of: KafkaBroker, *events: dict[str, Any]) -> dict[str, Any]:
    found = detail.disk_detail(of, "disk1", events)
    assert found is not None
    return found


def commands(of: KafkaBroker) -> list[str]:
    return [each["command"] for each in shown(of)["commands"]]


def test_it_has_node_device_path_replicas_and_claim() -> None:
    facts = dict(shown(broker())["facts"])

    assert facts["Node"] == "node2"
    assert facts["Device"] == "/dev/loop2"
    assert facts["Path on the node"] == "/mnt/spindle/disk1"
    assert facts["Replicas"] == "12"
    assert facts["PersistentVolumeClaim"] == "data-disk1-demo-1"
    assert facts["Used"] == "30 MiB of 296 MiB (10.0 %)"
    assert all(facts.values())


def test_a_disk_that_the_broker_does_not_have() -> None:
    assert detail.disk_detail(broker(), "disk7", ()) is None


def test_the_history_is_events_and_present_states_latest_first() -> None:
    of = broker(state="Failed", since="2026-03-04T10:00:00Z", message="A probe failed.")
    events = (
        map_samples.event(RAW, "DiskFailed", "disk1 cannot serve its replicas.", 60, warning=True),
        map_samples.event(RAW, "DiskActive", "disk10 is in use.", 30),
        map_samples.event(RAW, "DiskActive", "disk0 is in use.", 20),
    )

    history = shown(of, *events)["history"]

    assert [(each["what"], each["warning"]) for each in history] == [("DiskFailed", True), ("Failed", False)]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("disk1 is in use.", True),
        ("Broker 1 (disk1): full", True),
        ("disk10 is in use.", False),
        ("mydisk1 is", False),
    ],
)
def test_which_messages_name_a_disk(message: str, named: bool) -> None:
    assert detail.names_disk(message, "disk1") is named


@pytest.mark.parametrize(
    ("state", "wanted"), [("Active", ["cordon", "drain"]), ("Drained", ["release"]), ("Failed", [])]
)
def test_maintenance_is_a_command_per_disk(state: str, wanted: list[str]) -> None:
    found = [shlex.split(each) for each in commands(broker(state=state)) if "spindle disk" in each]

    assert found == [["spindle", "disk", verb, "demo-broker-1", "disk1", "-n", "default"] for verb in wanted]


def test_commands_reach_the_same_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Typed, "context", "far away")

    found = [each for each in commands(broker(state="Active")) if not each.startswith("lsblk")]

    assert found
    assert all(each.endswith(" -n default --context 'far away'") for each in found)


def test_no_text_of_others_ends_a_word_of_a_command() -> None:
    device = "/dev/sdb; rm -rf / #"
    found = commands(broker(device=device, reason="$(reboot)"))

    assert [shlex.split(each)[-1] for each in found if each.startswith(("lsblk", "spindle explain"))] == [
        "$(reboot)",
        device,
    ]
