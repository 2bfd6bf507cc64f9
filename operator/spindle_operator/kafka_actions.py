"""The actions that are requests to Kafka: for each its request and the text of its log line.

A new request needs its class in `spindle.model.actions`, its function in `spindle_operator.kafka_commands`, and its row here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from spindle.model.actions import (
    Action,
    AddPartitions,
    AddVoter,
    AlterUser,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    GrantAdmin,
    GrantRebalance,
    PlaceReplicas,
    RaiseFeatures,
    Reassign,
    ReloadCertificates,
    RemoveVoter,
    SetConfigs,
    TrimPartitions,
    Tune,
    UnregisterBroker,
)
from spindle.model.waiting import counted
from spindle_operator import kafka_commands, quorum, users
from spindle_operator.kafka_client import KafkaClient

_A = TypeVar("_A", bound=Action)


@dataclass(frozen=True)
class KafkaAction(Generic[_A]):
    """How one kind of action is carried out.

    Attributes:
        run: sends the request and waits for the answer.
        text: describes an action for a log line.
    """

    run: Callable[[KafkaClient, _A], None]
    text: Callable[[_A], str]


def run(link: KafkaClient, action: Action) -> None:
    """Send the request of an action.

    Raises:
        KeyError: the action is no request to Kafka.
    """
    KAFKA_ACTIONS[type(action)].run(link, action)


def _elected(how: str) -> Callable[[ElectPreferred | ElectUnclean], str]:
    return lambda action: f"elect {how} leaders of {counted(len(action.partitions), 'partition')}"


def _place(link: KafkaClient, action: PlaceReplicas) -> None:
    kafka_commands.place(link, action.broker, action.placements)


def _create_topic(link: KafkaClient, action: CreateTopic) -> None:
    if action.dirs:
        # If it exists although no broker reported it, the choice of dirs would move its replicas.
        kafka_commands.create_topic(link, action.topic, action.assignments, action.configs, only_check=True)
        kafka_commands.choose_dirs(link, action.topic, action.dirs)
    kafka_commands.create_topic(link, action.topic, action.assignments, action.configs)


def _add_partitions(link: KafkaClient, action: AddPartitions) -> None:
    if action.dirs:  # as above, if it has these partitions already
        kafka_commands.add_partitions(link, action.topic, action.first, action.assignments, only_check=True)
        kafka_commands.choose_dirs(link, action.topic, action.dirs)
    kafka_commands.add_partitions(link, action.topic, action.first, action.assignments)


def _set_configs(link: KafkaClient, action: SetConfigs) -> None:
    if action.target == "quota":
        kafka_commands.set_quota(link, action.values)
    else:
        kafka_commands.set_configs(link, action.target, action.name, action.values)


def _tune(link: KafkaClient, action: Tune) -> None:
    broker = "" if action.broker is None else str(action.broker)
    kafka_commands.set_configs(link, "broker", broker, action.values)


def _reload_certificates(link: KafkaClient, action: ReloadCertificates) -> None:
    # The second request is no change to the file's settings, but makes the broker read the file that they name.
    for values in filter(None, (action.paths, dict.fromkeys(action.remove))):
        kafka_commands.set_configs(link, "broker", str(action.broker), values)


def _text_of_tune(action: Tune) -> str:
    whom = "all brokers" if action.broker is None else f"broker {action.broker}"
    return f"set {', '.join(sorted(action.values))} of {whom}"


def _alter_user(link: KafkaClient, change: AlterUser) -> None:
    if change.keep_out is not None:  # deny before anything is allowed
        users.keep_out(link, change.user, wanted=change.keep_out)
    users.alter(link, change.user, change.give, change.take)
    if change.quotas:
        users.set_quotas(link, change.user, change.quotas)
    if change.drop_password:
        users.drop_password(link, change.user)
    if change.deny is not None:
        users.deny(link, change.user, wanted=change.deny)


def _add_voter(link: KafkaClient, change: AddVoter) -> None:
    quorum.add_voter(link, change.cluster_id, change.controller, change.directory_id, change.host)


def _remove_voter(link: KafkaClient, change: RemoveVoter) -> None:
    quorum.remove_voter(link, change.cluster_id, change.controller, change.directory_id)


KAFKA_ACTIONS: Final[Mapping[type[Action], KafkaAction[Any]]] = {
    AlterUser: KafkaAction(_alter_user, lambda it: f"AlterUser of user {it.user}"),
    GrantAdmin: KafkaAction(
        lambda link, _: kafka_commands.grant_admin(link), lambda _: "create ACLs of the admin"
    ),
    GrantRebalance: KafkaAction(
        lambda link, _: kafka_commands.grant_rebalance(link), lambda _: "create ACLs of the rebalance job"
    ),
    ElectPreferred: KafkaAction(
        lambda link, it: kafka_commands.elect(link, it.partitions), _elected("preferred")
    ),
    ElectUnclean: KafkaAction(
        lambda link, it: kafka_commands.elect(link, it.partitions, unclean=True), _elected("unclean")
    ),
    PlaceReplicas: KafkaAction(
        _place,
        lambda it: f"choose log dirs for {counted(len(it.placements), 'replica')} on broker {it.broker}",
    ),
    Reassign: KafkaAction(
        lambda link, it: kafka_commands.reassign(link, it.assignments),
        lambda it: f"reassign {counted(len(it.assignments), 'partition')}",
    ),
    TrimPartitions: KafkaAction(
        lambda link, it: kafka_commands.trim(link, it.partitions),
        lambda it: f"delete the oldest records of {counted(len(it.partitions), 'partition')}",
    ),
    CreateTopic: KafkaAction(
        _create_topic,
        lambda it: f"create topic {it.topic} with {counted(len(it.assignments), 'partition')}",
    ),
    AddPartitions: KafkaAction(
        _add_partitions,
        lambda it: f"add {counted(len(it.assignments), 'partition')} to topic {it.topic}",
    ),
    ConfigureTopic: KafkaAction(
        lambda link, it: kafka_commands.set_configs(link, "topic", it.topic, it.values),
        lambda it: f"set {', '.join(sorted(it.values))} of topic {it.topic} as its KafkaTopic says",
    ),
    DeleteTopic: KafkaAction(
        lambda link, it: kafka_commands.delete_topic(link, it.topic, it.id),
        lambda it: f"delete topic {it.topic} with id {it.id}",
    ),
    SetConfigs: KafkaAction(
        _set_configs, lambda it: f"set {', '.join(sorted(it.values))} of {it.target} {it.name}"
    ),
    ReloadCertificates: KafkaAction(
        _reload_certificates, lambda it: f"make broker {it.broker} load certificates of listeners"
    ),
    Tune: KafkaAction(_tune, _text_of_tune),
    RaiseFeatures: KafkaAction(
        lambda link, it: kafka_commands.raise_features(link, it.levels),
        lambda it: f"raise {', '.join(f'{name} to {level}' for name, level in it.levels.items())}",
    ),
    UnregisterBroker: KafkaAction(
        lambda link, it: kafka_commands.unregister(link, it.broker),
        lambda it: f"unregister broker {it.broker}",
    ),
    AddVoter: KafkaAction(_add_voter, lambda it: f"make controller {it.controller} a voter"),
    RemoveVoter: KafkaAction(_remove_voter, lambda it: f"remove controller {it.controller} from the quorum"),
}
