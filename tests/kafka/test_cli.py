"""The command line at a real Kafka with three racks, over mutual TLS."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from spindle.api import names
from spindle.model.racks import PlacementError
from spindle_cli import topics
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, connect
from spindle_cli.messages import send_and_read
from tests.kafka.cluster import Cluster


@pytest.fixture(scope="module")
def access(make_cluster: Callable[..., Cluster]) -> Access:
    cluster = make_cluster(brokers=3, disks=2)
    cluster.up()
    return Access(cluster.operator, cluster.bootstrap(names.PORT_REPLICATION)[0])


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=100, highlight=False)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_new_topic_is_on_every_rack_with_its_leaders_spread(access: Access, console: Console) -> None:
    assert topics.create(access, "orders", 6, 3, ["retention.ms=60000"], console)

    assert "each of its 6 partitions is on 3 racks" in said(console)
    with connect(access) as client:
        topic = client.topic("orders")
        assert topic is not None
        assert sorted(each.leader for each in topic.partitions if each.leader is not None) == [
            0,
            0,
            1,
            1,
            2,
            2,
        ]
        assert {rack for each in topic.partitions for rack in topic.racks_of(each)} == {
            "zone-0", "zone-1", "zone-2",
        }  # fmt: skip


def test_creating_it_again_changes_nothing_and_says_so(access: Access, console: Console) -> None:
    topics.create(access, "again", 2, 3, [], console)

    assert topics.create(access, "again", 9, 1, [], console)

    assert "exists already, with 2 partitions" in said(console)


def test_every_message_comes_back(access: Access, console: Console) -> None:
    assert topics.verify(access, "spindle-verify", 3_000, 200, console)

    text = said(console)
    assert "3,000 messages sent" in text
    assert "3,000 read back" in text
    assert "0 missing, 0 altered" in text
    assert "broker 2 is in rack zone-2" in text
    assert text.count("replicas of spindle-verify") == 6


def test_messages_of_an_earlier_run_are_not_counted(access: Access) -> None:
    lines: list[str] = []
    for messages in (100, 70):
        count = send_and_read(access, "spindle-verify", messages, 50, lines.append)
        assert (count.sent, count.read, count.strangers) == (messages, messages, 0)


@pytest.mark.parametrize(
    ("replicas", "settings", "error", "sentence"),
    [
        pytest.param(4, [], PlacementError, "only 3 broker", id="more replicas than brokers"),
        pytest.param(
            3, ["nonsense=1"], ClientError, "Unknown topic config name: nonsense", id="no such setting"
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(
    access: Access,
    console: Console,
    replicas: int,
    settings: list[str],
    error: type[Exception],
    sentence: str,
) -> None:
    with pytest.raises(error, match=sentence):
        topics.create(access, "impossible", 1, replicas, settings, console)

    with pytest.raises(ClientError, match="topic impossible does not exist"):
        topics.describe(access, "impossible", console)
