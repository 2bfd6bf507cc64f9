"""A KafkaUser's certificate is worth nothing once it is deleted, also where somebody else has its name by then. On a real broker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka.errors import TopicAuthorizationFailedError

from spindle.api import names
from spindle.model.rights import Right, UserView
from spindle.users.rights import UserRecord, change
from spindle_operator import users
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.test_listeners import WRITE, certified, give, write

pytestmark = pytest.mark.kafka

OTHER = "__other"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1)
    made.up()
    made.make_topic("orders", [[0]])
    made.make_topic(OTHER, [[0]])
    made.make_topic(names.TOPIC_SAMPLES, [[0]])
    return made


@pytest.fixture
def link(cluster: Cluster) -> Iterator[KafkaClient]:
    made = cluster.link()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("*", "literal"), ("_", "prefixed"), ("__", "prefixed"), ("__spindle", "prefixed")],
)
def test_who_may_write_to_all_topics_is_kept_out_of_spindles(
    cluster: Cluster, link: KafkaClient, tmp_path: Path, name: str, pattern: str
) -> None:
    """A short prefix reaches them as the star does; with the denial that Spindle decides on, it does not."""
    principal = f"wide-{len(name)}-{pattern}"
    client = certified(cluster, cluster.ca.client(tmp_path, principal))
    everything = frozenset(
        Right("topic", name, pattern, operation, "*") for operation in ("Write", "Describe")
    )
    give(link, principal, *everything)
    write(client, topic=names.TOPIC_SAMPLES)
    decided = change(everything, {}, UserRecord(), UserView(), password=False).record
    users.keep_out(link, principal, wanted=decided.kept_out)
    wait_for("the denial", lambda: users.look(link, [principal])[principal].kept_out)
    with pytest.raises(TopicAuthorizationFailedError):
        write(client, topic=names.TOPIC_SAMPLES)
    if OTHER.startswith(name.rstrip("*")):
        write(client, topic=OTHER)


def test_the_old_one_is_denied_what_the_new_one_may(
    cluster: Cluster, link: KafkaClient, tmp_path: Path
) -> None:
    old = certified(cluster, cluster.ca.client(tmp_path / "old", "orders"))
    give(link, "orders", *WRITE)
    write(old)
    users.deny(link, "orders", wanted=True)
    wait_for("the denial", lambda: users.look(link, ["orders"])["orders"].denied)
    with pytest.raises(TopicAuthorizationFailedError):
        write(old)
    new = certified(cluster, cluster.ca.client(tmp_path / "new", "orders_2"))
    give(link, "orders_2", *WRITE)
    write(new)
    assert users.look(link, ["orders_2"])["orders_2"] == UserView(frozenset(WRITE))
    with pytest.raises(TopicAuthorizationFailedError):
        write(old)
    users.deny(link, "orders", wanted=False)
    wait_for("its end", lambda: not users.look(link, ["orders"])["orders"].denied)
    assert users.look(link, ["orders"])["orders"].rights == set(WRITE)
