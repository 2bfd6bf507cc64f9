import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spindle_cli import kafka_client, messages, topics
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, PartitionView, TopicView
from spindle_cli.messages import Count

ZONES = {0: "a", 1: "b", 2: "c", 3: "a"}


def partition(index: int, *replicas: int, isr: tuple[int, ...] | None = None) -> PartitionView:
    return PartitionView(index, replicas[0], replicas, replicas if isr is None else isr)


@pytest.mark.parametrize(
    ("racks", "replicas", "bad"),
    [
        pytest.param(ZONES, (0, 1, 2), [], id="one in each zone"),
        pytest.param(ZONES, (0, 3, 1), [0], id="two in one zone while another has none"),
        pytest.param(ZONES, (0, 1, 2, 3), [], id="more replicas than zones"),
        pytest.param(ZONES, (0, 3), [0], id="both in one zone"),
        pytest.param({0: "", 1: ""}, (0, 1), [], id="no racks at all"),
        pytest.param({0: "a", 1: "b"}, (0, 1, 2), [], id="a dead broker's rack does not count"),
        pytest.param(ZONES, (2,), [], id="a single replica"),
    ],
)
def test_a_partition_is_badly_spread_when_a_rack_more_could_be_had(
    racks: dict[int, str], replicas: tuple[int, ...], bad: list[int]
) -> None:
    assert TopicView("t", (partition(0, *replicas),), racks).badly_spread == bad


def test_partitions_out_of_sync_are_named() -> None:
    view = TopicView(
        "t", (partition(0, 0, 1), partition(1, 0, 1, isr=(1,)), partition(2, 1, 0, isr=(0, 1))), ZONES
    )

    assert view.not_in_sync == [1]


def test_access_comes_from_the_environment_only_when_it_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(kafka_client.ENV_CREDENTIALS, raising=False)
    monkeypatch.delenv(kafka_client.ENV_BOOTSTRAP, raising=False)
    assert Access.from_environment() is None
    monkeypatch.setenv(kafka_client.ENV_CREDENTIALS, str(tmp_path))
    assert Access.from_environment() is None
    monkeypatch.setenv(kafka_client.ENV_BOOTSTRAP, "demo:9092")

    access = Access.from_environment()

    assert access == Access(tmp_path, "demo:9092")
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).touch()
    assert access.settings() == {
        "bootstrap_servers": "demo:9092",
        "security_protocol": "SSL",
        "ssl_cafile": f"{tmp_path}/ca.crt",
        "ssl_certfile": f"{tmp_path}/tls.crt",
        "ssl_keyfile": f"{tmp_path}/tls.key",
    }


def test_a_missing_certificate_is_reported_instead_of_a_connection_that_fails_later(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").touch()

    with pytest.raises(ClientError, match=rf"{tmp_path}, lacks tls.crt, tls.key"):
        Access(tmp_path, "demo:9092").settings()


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100, 1000])
def test_messages_have_their_number_in_front_and_the_size_that_was_asked_for(size: int) -> None:
    value = messages.value_of(1234, size)

    assert value.startswith(b"1234.")
    assert len(value) == max(size, 5)
    assert value != messages.value_of(1235, size)


@pytest.mark.parametrize(
    ("settings", "parsed"),
    [(["a=1", "b.c=x=y"], {"a": "1", "b.c": "x=y"}), (["empty="], {"empty": ""}), ([], {})],
)
def test_settings_are_pairs(settings: list[str], parsed: dict[str, str]) -> None:
    assert topics._parsed(settings) == parsed


@pytest.mark.parametrize("setting", ["alone", "=value", ""])
def test_a_setting_without_key_or_value_is_an_error(setting: str) -> None:
    with pytest.raises(ClientError, match="key=value"):
        topics._parsed([setting])


class Broker:
    """As much of kafka-python's admin client as creating a topic takes."""

    def __init__(self, racks: dict[int, str | None]) -> None:
        self.racks = racks
        self.topics: dict[str, dict[int, list[int]]] = {}
        # Answers still to come from brokers that have not heard of a new topic; the last one knows it without a leader.
        self.behind = 0
        self.loses_answer = False  # the controller's first answer is lost, and the request repeated
        self.rival: dict[int, list[int]] = {}  # a topic that another client creates just before

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": number, "rack": rack} for number, rack in self.racks.items()]}

    def create_topics(self, wanted: dict[str, Any], *, raise_errors: bool) -> dict[str, Any]:
        ((name, options),) = wanted.items()
        if "nonsense" in options["configs"]:
            refusal = {"error_code": 40, "error_message": "Unknown topic config name: nonsense"}
            return {"topics": [{"name": name, **refusal}]}
        there = name in self.topics or self.loses_answer or self.rival
        if name not in self.topics:
            self.topics[name] = self.rival or options["assignments"]
        if there:
            refusal = {"error_code": 36, "error_message": f"Topic '{name}' already exists."}
            return {"topics": [{"name": name, **refusal}]}
        return {"topics": [{"name": name, "error_code": 0}]}

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [self._topic(name) for name in names]

    def _topic(self, name: str) -> dict[str, Any]:
        self.behind -= 1
        if name not in self.topics or self.behind > 1:
            return {"name": name, "error_code": 3, "partitions": []}
        rows = [
            {
                "partition_index": index,
                "leader_id": -1 if self.behind > 0 else row[0],
                "replica_nodes": row,
                "isr_nodes": row,
            }
            for index, row in self.topics[name].items()
        ]
        return {"name": name, "error_code": 0, "partitions": rows}


def client_of(broker: Broker) -> kafka_client.Client:
    made: Any = broker
    return kafka_client.Client(made, Access(Path("/nowhere"), "nowhere:9092"))


def test_a_new_topic_has_every_partition_on_every_rack() -> None:
    client = client_of(Broker({number: f"zone-{number % 3}" for number in range(6)}))

    topic = client.create_topic("orders", 12, 3, {})

    assert topic.badly_spread == []
    assert all(len(topic.racks_of(each)) == 3 for each in topic.partitions)
    assert len({each.replicas[0] for each in topic.partitions}) == 6


def test_a_broker_that_is_behind_is_asked_again() -> None:
    broker = Broker({0: None})
    broker.behind = 4

    (only,) = client_of(broker).create_topic("orders", 1, 1, {}).partitions

    assert only.leader == 0


def test_a_topic_that_no_broker_shows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "_SHOWN_SECONDS", 0.0)
    broker = Broker({0: None})
    broker.behind = 100

    with pytest.raises(
        ClientError, match=r"^topic orders was created, but 0 s later the brokers do not list it$"
    ):
        client_of(broker).create_topic("orders", 1, 1, {})


def test_topics_with_different_names_do_not_all_start_on_the_same_broker() -> None:
    client = client_of(Broker({number: f"zone-{number % 3}" for number in range(6)}))

    leaders = {client.create_topic(f"topic-{number}", 1, 3, {}).partitions[0].leader for number in range(20)}

    assert len(leaders) > 2


def test_a_topic_that_does_not_exist_is_none() -> None:
    assert client_of(Broker({0: None})).topic("nothing") is None


def test_what_kafka_says_against_a_topic_is_all_that_is_said() -> None:
    with pytest.raises(
        ClientError, match=r"^topic bad was not created: Unknown topic config name: nonsense$"
    ):
        client_of(Broker({0: None})).create_topic("bad", 1, 1, {"nonsense": "1"})


def test_a_topic_is_created_although_the_broker_had_to_repeat_the_request() -> None:
    broker = Broker({0: "a", 1: "b", 2: "c"})
    broker.loses_answer = True

    made = client_of(broker).create_topic("orders", 6, 3, {})

    assert {each.index: list(each.replicas) for each in made.partitions} == broker.topics["orders"]


def test_a_topic_that_exists_is_not_created_again() -> None:
    client = client_of(Broker({0: None}))
    client.create_topic("orders", 1, 1, {})

    with pytest.raises(ClientError, match=r"^topic orders was not created: Topic 'orders' already exists\.$"):
        client.create_topic("orders", 1, 1, {})


def test_a_topic_of_another_client_is_not_claimed() -> None:
    broker = Broker({0: None, 1: None})
    broker.rival = {0: [1], 1: [1]}

    with pytest.raises(ClientError, match="another client created it at the same time"):
        client_of(broker).create_topic("orders", 1, 1, {})


@pytest.mark.parametrize(
    ("count", "replicas", "fine"),
    [
        pytest.param(Count(10, 10, 0, 1.0, 1.0), (0, 1, 2), True, id="all came back"),
        pytest.param(Count(10, 9, 0, 1.0, 1.0), (0, 1, 2), False, id="one is missing"),
        pytest.param(Count(10, 10, 1, 1.0, 1.0), (0, 1, 2), False, id="one was altered"),
        pytest.param(Count(10, 10, 0, 1.0, 1.0), (0, 3), False, id="too few racks"),
    ],
)
def test_verify_is_content_only_when_everything_is_well(
    count: Count, replicas: tuple[int, ...], *, fine: bool
) -> None:
    console = Console(file=io.StringIO(), width=100)

    assert topics._result(TopicView("t", (partition(0, *replicas),), ZONES), count, console) is fine
