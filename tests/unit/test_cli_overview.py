from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from spindle.api.enums import DiskState
from spindle.api.thresholds import UsageLevel
from spindle.disks.lifecycle import MEANINGS
from spindle_cli import overview
from spindle_cli.kube import ClusterView
from tests.unit import cli_samples as samples

NOW = datetime.fromisoformat(samples.NOW)
WIDTH = 100


def drawn(
    cluster: dict[str, Any], *brokers: dict[str, Any], controllers: tuple[dict[str, Any], ...] = ()
) -> str:
    view = ClusterView(cluster, brokers, controllers)
    console = Console(width=WIDTH, record=True, highlight=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(overview.overview(view, NOW))
    return console.export_text()


def test_each_broker_shows_its_rack_its_node_and_every_disk_with_its_log_dir() -> None:
    text = drawn(samples.ready(), *(samples.broker(number) for number in range(3)))

    lines = text.splitlines()
    for number, zone in enumerate(("zone-a", "zone-b", "zone-c")):
        row = next(line for line in lines if line.startswith(f"{number} Running"))
        assert zone in row
        assert f"node{number + 1}" in row
        assert f"node{number + 1}-disk0" in row
        assert f"node{number + 1}-disk1" in text
    assert text.count("/var/lib/kafka/disks/disk0/log") == 3
    assert text.count("/var/lib/kafka/disks/disk1/log") == 3
    assert "on node1: /mnt/spindle/disk0" in text
    assert "10 % of 296 MiB" in text
    assert "12 replicas" in text


def test_a_disk_that_fills_says_what_is_done_about_it() -> None:
    fill = {
        "level": "Cordon",
        "since": samples.NOW,
        "message": "86 % is used, of 85 %.",
        "usedPercent": 86,
    }
    fine = {"level": "Normal", "message": "10 % is used."}
    disks = (samples.disk(0, "disk0", usage=fill), samples.disk(0, "disk1", usage=fine))
    text = drawn(samples.ready(), samples.broker(0, *disks))

    assert "Broker 0 disk0 Cordon: 86 % is used, of 85 %. (for 0 s)" in text
    assert text.count("Cordon") == 2
    assert "Normal" not in text


def test_nothing_is_wider_than_the_terminal() -> None:
    long = "/var/lib/kubelet/pods/0b8bb1b8-6a2f-4d3e-9d0e-0d3c2f3c9f10/volumes/kubernetes.io~local-volume/pv-disk-0"
    text = drawn(samples.ready(), samples.broker(0, samples.disk(0, "disk0", path=long)))

    assert max(map(len, text.splitlines())) <= WIDTH
    assert long in "".join(text.split())


def test_a_settled_cluster_has_no_bad_news() -> None:
    text = drawn(samples.ready(), samples.broker(0))

    assert "All 3 brokers and 3 controllers are ready." in text
    assert "Waiting" not in text
    assert "=True" not in text
    assert "=False" not in text


@pytest.mark.parametrize(
    ("kind", "status", "shown"),
    [
        ("Ready", "False", True),
        ("Ready", "True", False),
        ("RacksSatisfied", "False", True),
        ("DisksHealthy", "Unknown", True),
        ("DataAtRisk", "True", True),
        ("DataAtRisk", "False", False),
        ("DataAtRisk", "Unknown", True),
        ("Reconciling", "True", True),
        ("Reconciling", "False", False),
        ("Stalled", "True", True),
        ("Stalled", "False", False),
        ("Available", "False", True),
        ("Available", "True", False),
        ("DiskPressure", "True", True),
        ("DiskPressure", "False", False),
        ("SomethingNew", "False", True),
        ("SomethingNew", "True", False),
    ],
)
def test_conditions_are_shown_when_they_are_not_as_one_would_wish(
    kind: str, status: str, *, shown: bool
) -> None:
    text = drawn(samples.ready(conditions=[samples.condition(kind, status, "Why", "A reason.")]))

    assert (f"{kind}={status} Why: A reason." in text) is shown


def test_what_is_waited_for_comes_with_the_way_out() -> None:
    entry = {
        "action": "RestartBroker",
        "object": "demo-broker-1",
        "reason": "WouldBeUnderMinIsr",
        "message": "orders-3 would have one copy in sync",
        "since": "2026-03-04T09:57:00Z",
        "unblockedBy": "broker 2 catches up",
    }
    text = drawn(samples.ready(waiting=[entry]))

    assert "RestartBroker demo-broker-1: orders-3 would have one copy in sync (for 3 min)" in text
    assert "to resolve: broker 2 catches up" in text


def test_a_failed_disk_says_why() -> None:
    bad = samples.disk(
        0, "disk1", state="Failed", message="The file system answers with input/output errors."
    )
    well = samples.disk(0, "disk0", message="Kafka uses it.")
    text = drawn(samples.ready(), samples.broker(0, well, bad))

    assert "Broker 0 disk1 Failed: The file system answers with input/output errors." in text
    assert "Broker 0 disk0" not in text  # one that is simply in use is in the table, and that is all


def test_a_cluster_that_nobody_has_seen_yet() -> None:
    text = drawn(samples.cluster())

    assert "The operator has not observed this cluster yet; if that lasts, see: spindle doctor" in text
    assert "Controllers: none yet" in text


def test_a_broker_without_status_is_pending_and_its_disks_unknown() -> None:
    raw = samples.broker(0)
    del raw["status"]
    text = drawn(samples.ready(), raw)

    assert "0 Pending" in text
    assert text.count("none yet") == 3  # two volumes, and the controllers


def test_controllers_say_where_they_run_and_whether_they_are_ready() -> None:
    pods = (
        samples.pod("demo-controller-0"),
        samples.pod("demo-controller-1", ready=False, node="node2"),
        samples.pod("demo-controller-2", "Pending", ready=False, node=None),
    )
    text = " ".join(drawn(samples.ready(), controllers=pods).split())

    assert "demo-controller-0 on node1, demo-controller-1 on node2 (not ready)" in text
    assert "demo-controller-2 on no node yet (not ready)" in text


def test_controllers_have_their_part_in_the_quorum() -> None:
    pods = tuple(samples.pod(f"demo-controller-{number}") for number in range(4))
    keeps_up = {"caughtUp": True, "lag": 0}
    quorum = {
        "leader": 9001,
        "voters": [
            {"id": 9000, "directoryId": "a", **keeps_up},
            {"id": 9001, "directoryId": "b", **keeps_up},
            {"id": 9002, "directoryId": "c", "caughtUp": False, "lag": 400},
        ],
        "observers": [{"id": 9003, "directoryId": "d", **keeps_up}],
    }
    text = " ".join(drawn(samples.cluster(quorum=quorum), controllers=pods).split())

    assert "demo-controller-0 on node1, demo-controller-1 on node1 (active)" in text
    assert "demo-controller-2 on node1 (400 records behind), demo-controller-3 on node1 (not a voter)" in text


def test_progress_has_a_line_for_everything_that_can_change() -> None:
    waiting = {
        "action": "StartPod",
        "object": "Pod/x",
        "reason": "InsufficientVolumes",
        "message": "No node has room.",
    }
    view = ClusterView(
        samples.cluster(phase="Starting.", waiting=[waiting]),
        (samples.broker(0, state="Starting"),),
        (samples.pod("demo-controller-0"), samples.pod("demo-controller-1", ready=False, node=None)),
    )

    assert overview.progress(view) == [
        "Starting.",
        "  demo-controller-0: ready",
        "  demo-controller-1: no node yet",
        "  demo-broker-0: Starting. In sync.",
        "  waits: No node has room.",
    ]


def test_many_clusters_have_a_line_each() -> None:
    console = Console(width=WIDTH, record=True, highlight=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(overview.list_of([samples.ready("one"), samples.cluster("two")]))
    text = console.export_text()

    assert "one" in text
    assert "3/3" in text
    assert "6/6" in text
    assert "not yet observed by the operator" in text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (320 * 2**20, "320 MiB"),
        (10 * 2**40, "10 TiB"),
        (5000 * 2**50, "5000 PiB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert overview.size(count) == text


@pytest.mark.parametrize(
    ("since", "text"),
    [
        ("2026-03-04T09:59:59Z", "1 s"),
        ("2026-03-04T09:58:30Z", "90 s"),
        ("2026-03-04T09:58:00Z", "2 min"),
        ("2026-03-04T07:00:00Z", "3 h"),
        ("2026-02-28T10:00:00Z", "4 d"),
        ("2026-03-04T10:00:05Z", "0 s"),
        (None, ""),
    ],
)
def test_ages_have_one_unit(since: str | None, text: str) -> None:
    assert overview.age(since, NOW) == text


def test_the_words_that_the_overview_leaves_out_are_those_of_the_operator() -> None:
    assert MEANINGS[DiskState.ACTIVE] == overview._IN_USE
    assert UsageLevel.NORMAL.label == overview._NORMAL
