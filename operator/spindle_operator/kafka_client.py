"""One observation of a cluster's Kafka: a series of requests, each to a chosen broker."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from kafka.errors import KafkaProtocolError
from kafka.protocol.admin import (
    DescribeClientQuotasRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest

from spindle.config.dynamic_config import ON_BROKERS, ON_CLUSTER
from spindle.metrics.consumer_lag import GroupOffsets, Key
from spindle.model.answers import read_partition, with_reassignments
from spindle.model.config_values import ConfigValues
from spindle.model.rights import UserView
from spindle.model.view import (
    BROKER_SETTINGS,
    CLEANUP_POLICY,
    DEFAULT_USERS,
    LAST_RESORT_SETTINGS,
    TOPIC_SETTINGS,
    Broker,
    KafkaView,
    LogDir,
    Partition,
    Quorum,
)
from spindle.model.waiting import counted
from spindle.moves.journal import ReplacedLog
from spindle_operator import group_offsets, kafka_commands
from spindle_operator.answers import (
    directory_text,
    expect,
    freshest,
    leading_state,
    read_quorum,
    read_quota,
    read_settings,
    read_standing,
    set_on_it,
)
from spindle_operator.connection import Budget, Connection, TooMuchError
from spindle_operator.leader_epochs import own_epochs
from spindle_operator.log_dir_layout import read_with_layout
from spindle_operator.partition_pages import PageLayout, read_page
from spindle_operator.raw_answers import AnswerMemo, RawAnswer, undecoded
from spindle_operator.users import agents as look_at_agents
from spindle_operator.users import look as look_at_users

_PARTITIONS_PER_PAGE: Final = 2000  # the brokers' default maximum (max.request.partition.size.limit)
_TOPICS_PER_CALL: Final = 500
# Limits of one observation: its duration in timeouts, the number of responses (each at most 1 MB) besides those about brokers and users, and how much is kept.
_LOOK: Final = 10
_ANSWERS: Final = 1000
_OF_USERS: Final = 0.4  # share of the time, for the ACLs and quotas of KafkaUsers
_MOST_PARTITIONS: Final = 400_000
_MOST_REPLICAS: Final = 3_000_000
_TOPIC: Final = 2  # ConfigResource.Type.TOPIC
_BROKER: Final = 4  # ConfigResource.Type.BROKER
_UNKNOWN_TOPIC: Final = 3  # UNKNOWN_TOPIC_OR_PARTITION
_MIN_ISR: Final = "min.insync.replicas"
_HOLDS: Final = (*LAST_RESORT_SETTINGS, CLEANUP_POLICY)
_TOPIC_KEYS: Final = (_MIN_ISR, *dict.fromkeys((*TOPIC_SETTINGS, *_HOLDS)))
_ASKED: Final = 4  # brokers asked for the quorum before it counts as unknown

_TUNABLE: Final = sorted(ON_BROKERS | ON_CLUSTER)

Settings = dict[tuple[str, str], Mapping[str, str]]
_Told = tuple[Mapping[str, str], Mapping[str, ConfigValues]]


_LogDirs = undecoded(DescribeLogDirsRequest)
_Configs = undecoded(DescribeConfigsRequest)
_Partitions = undecoded(DescribeTopicPartitionsRequest)


@dataclass(frozen=True)
class _OfTopic:
    """A topic on one page; ``replicas`` as in `_Page`."""

    name: str
    id: str
    partitions: tuple[Partition, ...]
    replicas: int


@dataclass(frozen=True)
class _Page:
    """One page of the list of partitions, without reassignments; ``replicas`` counts those of assignments and ISRs."""

    partitions: tuple[Partition, ...]
    replicas: int
    after: tuple[str, int] | None
    ids: Mapping[str, str]


class KafkaClient(Connection):
    """A connection that observes Kafka. All methods block; all raise KafkaError, OSError or RuntimeError."""

    # The observation

    def look(
        self,
        *,
        ask_rights: bool,
        users: Sequence[str] = (),
        agents: bool = True,
        managed: Mapping[str, Sequence[str]] | None = None,
        replaced: Sequence[ReplacedLog] = (),
        memo: AnswerMemo | None = None,
    ) -> tuple[KafkaView, bool | None, bool]:
        """Everything at once: the view, whether the admin has its ACLs, and whether every request succeeded.

        Args:
            ask_rights: whether to request the admin's ACLs.
            users: whose ACLs and quotas to request.
            agents: whether to request those of the agents.
            managed: topic → further settings of it to request.
            replaced: logs whose leaders are asked for their epochs.
            memo: of the last observation, which another client may have made.
        """
        self._memo = memo or AnswerMemo()
        self._memo.turn()
        # Less than the executor waits, so that an observation that takes too long ends by itself and frees its thread.
        self.budget = Budget(_LOOK * self.timeout_ms / 1000, _ANSWERS + len(users) * 4 + len(self.hosts) * 4)
        try:
            view, granted = self._look(
                ask_rights=ask_rights, users=users, agents=agents, managed=managed or {}
            )
            if replaced and view.partitions is not None:
                view = replace(view, own_epochs=self._own_epochs(replaced))
            return view, granted, not self._failed
        finally:
            self.budget = None
            self.tell_unsaid()

    def lag(
        self, groups: Sequence[str], leaders: Mapping[Key, int | None]
    ) -> tuple[GroupOffsets, dict[Key, int], bool]:
        """The committed offsets of consumer groups, the ends of their partitions, and whether every request succeeded; see `group_offsets.read`."""
        self._failed = False
        self.silent.clear()
        try:
            offsets, ends = group_offsets.read(self, groups, leaders)
        finally:
            self.tell_unsaid()
        return offsets, ends, not self._failed

    def _look(
        self, *, ask_rights: bool, users: Sequence[str], agents: bool, managed: Mapping[str, Sequence[str]]
    ) -> tuple[KafkaView, bool | None]:
        self._failed = False
        self.silent.clear()
        quorum, node = self._quorum()
        if node is None:
            # Without a quorum the age of a broker's metadata is unknown, so the view is unknown, not stale.
            self._failed = True
            return KafkaView(quorum=quorum), None
        cluster = self.attempt(lambda: self._describe_cluster(node))
        listed = self.attempt(lambda: self._partitions(node))
        partitions, ids = listed if listed is not None else (None, None)
        brokers = self._with_log_dirs(cluster[1]) if cluster else None
        told = self._broker_configs(brokers) if brokers else {}
        topics = (
            None
            if partitions is None
            else self.attempt(lambda: self._topic_configs(node, partitions, managed))
        )
        features = self.attempt(lambda: self._features(node))
        view = KafkaView(
            cluster_id=cluster[0] if cluster else None,
            brokers=brokers,
            partitions=partitions,
            min_isr=topics[0] if topics else None,
            settings=(topics[1] if topics else {})
            | {("broker", str(node)): values for node, (values, _) in told.items()}
            | self._default_quota(node)
            if brokers
            else None,
            standing={node: standing for node, (_, standing) in told.items()},
            topics=topics[2] if topics else None,
            quorum=quorum,
            metadata_version=None if features is None else features.get("metadata.version"),
            features=features,
            users=self._users(users) if users else None,
            topic_ids=ids,
            managed=topics[3] if topics else None,
            agents=self.attempt(lambda: look_at_agents(self)) if agents else None,
        )
        granted = self.attempt(lambda: kafka_commands.admin_granted(self)) if ask_rights else None
        return view, granted

    def _own_epochs(self, replaced: Sequence[ReplacedLog]) -> dict[tuple[str, int], bool]:
        """Whether the logs of these leaders have their epochs; a broker that cannot be asked is left out."""
        by_broker: dict[int, list[tuple[str, int]]] = {}
        for log in replaced:
            by_broker.setdefault(log.broker, []).append(log.key)
        found: dict[tuple[str, int], bool] = {}
        for node in by_broker.keys() & self.hosts.keys():
            found |= self.attempt(partial(own_epochs, self, node, by_broker[node])) or {}
        return found

    def _users(self, users: Sequence[str]) -> dict[str, UserView] | None:
        """ACLs and quotas of users; None if there are so many that it takes too long: then users wait, and disks do not.

        A user who may create KafkaUsers must not be able to keep the operator from managing disks.
        """
        whole = self.budget
        self.budget = Budget(_LOOK * self.timeout_ms / 1000 * _OF_USERS, len(users) * 4 + _ANSWERS)
        try:
            return self.attempt(lambda: look_at_users(self, users))
        except TooMuchError as error:
            self._unsaid.append(f"ACLs and quotas of {counted(len(users), 'user')}: {error}")
            return None
        finally:
            self.budget = whole

    def _quorum(self) -> tuple[Quorum | None, int | None]:
        """The quorum, and the broker whose metadata is the freshest according to the quorum's leader.

        A broker that is cut off from the controllers keeps serving its last metadata. Restarts must not be
        decided on that ("No restart below min.insync.replicas", docs/safety.md).
        """
        topic = DescribeQuorumRequest.TopicData
        asked = DescribeQuorumRequest(topics=[topic("__cluster_metadata", [topic.PartitionData(0)])])

        def ask(node: int) -> tuple[Quorum, int | None] | None:
            return self.attempt(lambda: read(self.send(copy.copy(asked), node)), f"broker {node}")

        def read(answer: Any) -> tuple[Quorum, int | None] | None:
            if (state := leading_state(answer)) is None:
                return None
            answering = [node for node in self.hosts if node not in self.silent]
            return read_quorum(state), freshest(state, answering)

        hosts = list(self.hosts)[:_ASKED]
        for nodes in (hosts[:1], hosts[1:]):
            for found in self.side_by_side(ask, nodes):
                if found is not None:
                    return found
        return None, None

    def _describe_cluster(self, node: int) -> tuple[str, dict[int, Broker]]:
        answer = self.send(DescribeClusterRequest(include_fenced_brokers=True), node)
        expect(answer.error_code, answer.error_message)
        told = answer.API_VERSION >= 2
        brokers = {
            broker.broker_id: Broker(broker.broker_id, broker.rack, broker.is_fenced if told else None)
            for broker in answer.brokers
        }
        return answer.cluster_id, brokers

    def _with_log_dirs(self, brokers: Mapping[int, Broker]) -> dict[int, Broker]:
        """Request the log dirs of every running broker, in parallel: a dead one costs one timeout, not the pass."""
        asked = [node for node in brokers if node in self.hosts]

        def ask(node: int) -> tuple[LogDir, ...] | None:
            return self.attempt(lambda: self._log_dirs(node), f"broker {node}")

        found = dict(zip(asked, self.side_by_side(ask, asked), strict=True))
        return {
            node: Broker(broker.id, broker.rack, broker.fenced, found.get(node))
            for node, broker in brokers.items()
        }

    def _log_dirs(self, node: int) -> tuple[LogDir, ...]:
        answer = self.send(_LogDirs(topics=None), node)
        return self._memo.read(("log dirs", node), answer, read_with_layout)

    def _partitions(self, node: int) -> tuple[tuple[Partition, ...], dict[str, str]]:
        """All partitions, and each topic's id."""
        moving = self._reassignments(node)
        pages: list[tuple[Partition, ...]] = []
        ids: dict[str, str] = {}
        after, count, replicas = None, 0, 0
        while True:
            page = self._page(node, after)
            pages.append(page.partitions)
            ids.update(page.ids)
            count += len(page.partitions)
            replicas += page.replicas
            if count > _MOST_PARTITIONS or replicas > _MOST_REPLICAS:
                raise TooMuchError(
                    f"it has more than {_MOST_PARTITIONS} partitions, or {_MOST_REPLICAS} replicas of them: too many to manage"
                )
            if page.after is None:
                found = self._memo.join("partitions", pages)
                return tuple(with_reassignments(found, moving)) if moving else found, ids
            if after is not None and page.after <= after:
                raise TooMuchError("its pages of partitions repeat endlessly")
            after = page.after

    def _page(self, node: int, after: tuple[str, int] | None) -> _Page:
        """The partitions from this one on."""
        cursor = after and DescribeTopicPartitionsRequest.Cursor(
            topic_name=after[0], partition_index=after[1]
        )
        request = _Partitions(topics=[], response_partition_limit=_PARTITIONS_PER_PAGE, cursor=cursor)
        return self._memo.read(("partitions", after), self.send(request, node), _read_page)

    def _reassignments(self, node: int) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
        answer = self.send(ListPartitionReassignmentsRequest(timeout_ms=self.timeout_ms, topics=None), node)
        expect(answer.error_code, answer.error_message)
        return {
            (topic.name, partition.partition_index): (
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    def _topic_configs(
        self, node: int, partitions: Sequence[Partition], managed: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, int], Settings, dict[str, Mapping[str, str]], dict[str, Mapping[str, str]]]:
        """Of each topic: min.insync.replicas; settings managed by Spindle that are set on it; effective ones; of ``managed`` topics, all that are set."""
        topics = sorted({partition.topic for partition in partitions})
        minimum: dict[str, int] = {}
        settings: Settings = {}
        holds: dict[str, Mapping[str, str]] = {}
        asked_for: dict[str, Mapping[str, str]] = {}
        for start in range(0, len(topics), _TOPICS_PER_CALL):
            wanted = [
                DescribeConfigsRequest.DescribeConfigsResource(
                    _TOPIC, topic, list(dict.fromkeys((*_TOPIC_KEYS, *managed.get(topic, ()))))
                )
                for topic in topics[start : start + _TOPICS_PER_CALL]
            ]
            answer = self.send(_Configs(resources=wanted), node)
            for topic, values in self._memo.read(
                ("topics", tuple(topics[start : start + _TOPICS_PER_CALL])), answer, _read_topics
            ):
                if values.minimum is not None:
                    minimum[topic] = values.minimum
                settings["topic", topic] = values.settings
                holds[topic] = values.holds
                if topic in managed:
                    asked_for[topic] = values.own
        return minimum, settings, holds, asked_for

    def _default_quota(self, node: int) -> Settings:
        """The default quota of users; empty if the request failed."""
        component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=1, match=None)

        def ask() -> dict[str, str]:
            answer = self.send(DescribeClientQuotasRequest(components=[component], strict=True), node)
            expect(answer.error_code, answer.error_message)
            return read_quota(answer)

        found = self.attempt(ask)
        return {} if found is None else {DEFAULT_USERS: found}

    def _broker_configs(self, brokers: Mapping[int, Broker]) -> dict[int, _Told]:
        """Settings managed by Spindle that are set on a broker itself, and where the user's are set; each broker reports its own."""

        def ask(node: int) -> _Told | None:
            resource = DescribeConfigsRequest.DescribeConfigsResource(
                _BROKER, str(node), [*BROKER_SETTINGS, *_TUNABLE]
            )
            request = _Configs(resources=[resource], include_synonyms=True)
            return self.attempt(lambda: self._one_config(request, node), f"broker {node}")

        asked = [node for node in brokers if node in self.hosts]
        answers = zip(asked, self.side_by_side(ask, asked), strict=True)
        return {node: told for node, told in answers if told is not None}

    def _one_config(self, request: Any, node: int) -> _Told:
        return self._memo.read(("broker", node), self.send(request, node), _read_broker)

    def _features(self, node: int) -> dict[str, int]:
        answer = self.send(
            ApiVersionsRequest(client_software_name="spindle", client_software_version="1", min_version=3),
            node,
        )
        expect(answer.error_code, "ApiVersions")
        return {feature.name: feature.max_version_level for feature in answer.finalized_features or []}


@dataclass(frozen=True)
class _Topic:
    """Settings of one topic: min.insync.replicas, Spindle's that are set on it, effective ones, and all of the requested ones that are set on it."""

    minimum: int | None
    settings: Mapping[str, str]
    holds: Mapping[str, str]
    own: Mapping[str, str]


# What `AnswerMemo.read` calls: a value, and what helps to read the next response, if anything does.


def _read_page(
    answer: RawAnswer, before: PageLayout[_OfTopic] | None
) -> tuple[_Page, PageLayout[_OfTopic] | None]:
    topics, cursor, layout = read_page(answer, before, _read_topic)
    partitions = tuple(chain.from_iterable(topic.partitions for topic in topics))
    after = cursor and (cursor.topic_name, cursor.partition_index)
    ids = {topic.name: topic.id for topic in topics}
    return _Page(partitions, sum(topic.replicas for topic in topics), after, ids), layout


def _read_topic(topic: Any) -> _OfTopic:
    expect(topic.error_code, topic.name)
    if not topic.name:
        raise KafkaProtocolError("a topic has no name")
    found = tuple(read_partition(topic.name, partition, {}) for partition in topic.partitions)
    replicas = sum(len(p.replicas) + len(p.isr) for p in found)
    return _OfTopic(topic.name, directory_text(topic.topic_id), found, replicas)


def _read_topics(answer: RawAnswer, _: None) -> tuple[list[tuple[str, _Topic]], None]:
    found = []
    for result in answer.decode().results:
        if result.error_code == _UNKNOWN_TOPIC:
            continue  # deleted since the broker listed it
        expect(result.error_code, result.error_message)
        values = {config.name: config.value for config in result.configs}
        minimum = int(values[_MIN_ISR]) if _MIN_ISR in values else None
        holds = {k: values[k] for k in _HOLDS if values.get(k)}
        own = set_on_it(result)
        settings = {key: own[key] for key in TOPIC_SETTINGS if own.get(key)}
        found.append((result.resource_name, _Topic(minimum, settings, holds, own)))
    return found, None


def _read_broker(answer: RawAnswer, _: None) -> tuple[_Told, None]:
    (result,) = answer.decode().results
    expect(result.error_code, result.error_message)
    return (read_settings(result, BROKER_SETTINGS), read_standing(result, _TUNABLE)), None
