"""The commands that connect to Kafka. Each returns whether everything is healthy."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, Client, TopicView, connect
from spindle_cli.messages import Count, send_and_read

_PARTITIONS: Final = 12
_REPLICAS: Final = 3
# Messages that only verify the cluster need not be retained.
_VERIFY_SETTINGS: Final = {"retention.ms": "3600000"}


def create(
    access: Access, name: str, partitions: int, replicas: int, settings: Sequence[str], console: Console
) -> bool:
    """Create a topic, or print that it exists already."""
    with connect(access) as client:
        there = client.topic(name)
        if there is not None:
            console.print(f"Topic {name} exists already, with {len(there.partitions)} partitions.")
            return _show(there, console)
        return _show(client.create_topic(name, partitions, replicas, _parsed(settings)), console)


def describe(access: Access, name: str, console: Console) -> bool:
    """Show one topic."""
    with connect(access) as client:
        found = client.topic(name)
    if found is None:
        raise ClientError(f"topic {name} does not exist")
    return _show(found, console)


def show_names(access: Access, console: Console) -> bool:
    """Show the names of all topics."""
    with connect(access) as client:
        for name in client.topics():
            console.print(name)
    return True


def verify(access: Access, name: str, messages: int, size: int, console: Console) -> bool:
    """Send messages through a topic, read them back, and check racks and log dirs as Kafka reports them."""
    with connect(access) as client:
        topic = client.topic(name) or _new(client, name, console)
        _brokers(client, topic, console)
        count = send_and_read(access, name, messages, size, console.print)
        after = client.topic(name) or topic
    return _result(after, count, console)


def _new(client: Client, name: str, console: Console) -> TopicView:
    replicas = min(_REPLICAS, len(client.racks()))
    console.print(f"Created topic {name}: {_PARTITIONS} partitions with {replicas} replicas each.")
    return client.create_topic(name, _PARTITIONS, replicas, _VERIFY_SETTINGS)


def _brokers(client: Client, topic: TopicView, console: Console) -> None:
    for broker, dirs in client.log_dirs(topic).items():
        console.print(
            f"Kafka reports: broker {broker} is in rack {topic.racks[broker] or '-'}; its log dirs:"
        )
        for path, replicas in dirs.items():
            console.print(f"  {path} with {replicas} replicas of {topic.name}", soft_wrap=True)


def _result(topic: TopicView, count: Count, console: Console) -> bool:
    lost = count.sent - count.read
    console.print(
        f"{count.sent:,} messages sent in {count.send_seconds:.1f} s, {count.read:,} read back in "
        f"{count.read_seconds:.1f} s, {lost:,} missing, {count.strangers:,} altered"
    )
    return _spread(topic, console) and lost == 0 and count.strangers == 0


def _show(topic: TopicView, console: Console) -> bool:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("Partition", "Leader", "Replicas", "In sync", "Racks"):
        table.add_column(column)
    for each in topic.partitions:
        table.add_row(
            str(each.index),
            "none" if each.leader is None else str(each.leader),
            " ".join(map(str, each.replicas)),
            " ".join(map(str, sorted(each.isr))),
            " ".join(topic.racks_of(each)) or "-",
        )
    console.print(table)
    return _spread(topic, console)


def _spread(topic: TopicView, console: Console) -> bool:
    """One line: whether the partitions are spread over the racks."""
    bad = topic.badly_spread
    if bad:
        console.print(f"Topic {topic.name}: partitions on too few racks: {' '.join(map(str, bad))}")
        return False
    fewest = min((len(topic.racks_of(each)) for each in topic.partitions), default=0)
    where = {0: "in a cluster without racks", 1: "on 1 rack"}.get(fewest, f"on {fewest} racks")
    console.print(f"Topic {topic.name}: each of its {len(topic.partitions)} partitions is {where}")
    if topic.not_in_sync:
        console.print(f"Under-replicated partitions: {' '.join(map(str, topic.not_in_sync))}")
    return True


def _parsed(settings: Sequence[str]) -> dict[str, str]:
    parsed = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found or not key:
            raise ClientError(f"--config takes key=value, not {setting}")
        parsed[key] = value
    return parsed
