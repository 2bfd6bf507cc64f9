"""Commands to Kafka: replicas, leaders, configs, ACLs. Each request goes to a chosen broker and has a timeout.

A request is executed as far as possible: partitions without errors are done, the error names the others.
"""

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    ElectionType,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)

from spindle.api import names
from spindle.model.waiting import some
from spindle_operator.answers import expect, failures
from spindle_operator.connection import Connection
from spindle_operator.list_offsets import EARLIEST, LATEST, list_offsets
from spindle_operator.messages import UnregisterBrokerRequest

_RESOURCES: Final = {"topic": 2, "broker": 4}  # ConfigResource.Type
_UPGRADE: Final = 1  # FeatureUpdate.UpgradeType
_SET, _DELETE = 0, 1  # AlterConfigOp.OpType
_ELECTION_NOT_NEEDED: Final = 84
_NOT_REGISTERED: Final = 102
_NO_REASSIGNMENT: Final = 85
_UNKNOWN_TOPIC_ID: Final = 100
_BY_ID: Final = 6  # first version of DeleteTopics that takes ids
# The broker does not hold the replica (or does not know the partition yet): it has stored the log dir nevertheless.
_NOTED: Final = (3, 9)


class RejectedError(RuntimeError):
    """Kafka rejected a request, or a part of it; the message names what and why."""


class NotPlacedError(RejectedError):
    """A broker rejected the log dir of some partitions; it has stored those of the others.

    Attributes:
        partitions: (topic, partition) of the rejected ones.
    """

    def __init__(self, message: str, partitions: Iterable[tuple[str, int]]) -> None:
        super().__init__(message)
        self.partitions = frozenset(partitions)


def place(link: Connection, broker: int, placements: Iterable[tuple[str, int, str]]) -> None:
    """AlterReplicaLogDirs: have a broker create (or move) replicas in these log dirs, as (topic, partition, path).

    Raises:
        NotPlacedError: it rejected some of them.
    """
    request = AlterReplicaLogDirsRequest
    dirs: dict[str, dict[str, list[int]]] = {}
    for topic, index, path in placements:
        dirs.setdefault(path, {}).setdefault(topic, []).append(index)
    answer = link.send(
        request(
            dirs=[
                request.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        request.AlterReplicaLogDir.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                        for topic, indexes in topics.items()
                    ],
                )
                for path, topics in dirs.items()
            ]
        ),
        broker,
    )
    results = [(t.topic_name, p.partition_index, p.error_code) for t in answer.results for p in t.partitions]
    if failed := failures(((f"{topic}-{index}", code, None) for topic, index, code in results), _NOTED):
        refused = [(topic, index) for topic, index, code in results if code and code not in _NOTED]
        raise NotPlacedError(f"broker {broker} rejects the log dir of {some(failed)}", refused)


def reassign(link: Connection, assignments: Iterable[tuple[str, int, Sequence[int] | None]]) -> None:
    """AlterPartitionReassignments: change the replicas of partitions; None cancels a reassignment in progress, if any."""
    request = AlterPartitionReassignmentsRequest
    topic_of = request.ReassignableTopic
    topics: dict[str, list[Any]] = {}
    for topic, index, replicas in assignments:
        wanted = topic_of.ReassignablePartition(
            partition_index=index, replicas=None if replicas is None else list(replicas)
        )
        topics.setdefault(topic, []).append(wanted)
    answer = link.send(
        request(
            timeout_ms=link.timeout_ms,
            topics=[topic_of(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        ),
        link.any_broker(),
    )
    expect(answer.error_code, answer.error_message)
    results = (
        (f"{topic.name}-{p.partition_index}", p.error_code, p.error_message)
        for topic in answer.responses
        for p in topic.partitions
    )
    settle("Kafka rejects the reassignment of", failures(results, (_NO_REASSIGNMENT,)))


def set_configs(
    link: Connection, kind: Literal["topic", "broker"], name: str, values: Mapping[str, str | None]
) -> None:
    """Set dynamic configs of a topic or a broker; None deletes one. A broker accepts only requests about itself.

    An empty broker name means the cluster-wide default.
    """
    request = IncrementalAlterConfigsRequest
    resource = request.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in values.items()
    ]
    answer = link.send(
        request(
            resources=[resource(resource_type=_RESOURCES[kind], resource_name=name, configs=configs)],
            validate_only=False,
        ),
        int(name) if kind == "broker" and name else link.any_broker(),
    )
    results = ((f"{kind} {name}", each.error_code, each.error_message) for each in answer.responses)
    settle("Kafka rejects the settings of", failures(results))


def raise_features(link: Connection, levels: Mapping[str, int]) -> None:
    """Raise finalized feature levels. If a node does not support one, Kafka rejects the request, and nothing changes."""
    request = UpdateFeaturesRequest
    updates = [
        request.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=_UPGRADE)
        for name, level in levels.items()
    ]
    answer = link.send(
        request(timeout_ms=link.timeout_ms, feature_updates=updates, validate_only=False), link.any_broker()
    )
    results = [("features", answer.error_code, answer.error_message)]
    results += [(each.feature, each.error_code, each.error_message) for each in answer.results or ()]
    settle("Kafka rejects the feature level of", failures(results))


def unregister(link: Connection, broker: int) -> None:
    """UnregisterBroker: unregister a stopped broker; an unknown broker is not an error."""
    answer = link.send(UnregisterBrokerRequest(broker_id=broker), link.any_broker())
    results = [(f"broker {broker}", answer.error_code, answer.error_message)]
    settle("Kafka does not unregister", failures(results, (_NOT_REGISTERED,)))


def set_quota(link: Connection, values: Mapping[str, str | None]) -> None:
    """Set the default quotas of users; None removes one."""
    request = AlterClientQuotasRequest
    entry = request.EntryData
    entity = entry.EntityData(entity_type="user", entity_name=None)
    ops = [
        entry.OpData(key=key, value=float(value or 0), remove=value is None) for key, value in values.items()
    ]
    answer = link.send(
        request(entries=[entry(entity=[entity], ops=ops)], validate_only=False), link.any_broker()
    )
    results = (("users", each.error_code, each.error_message) for each in answer.entries)
    settle("Kafka rejects the quota of", failures(results))


def create_topic(
    link: Connection,
    topic: str,
    assignments: Sequence[Sequence[int]],
    configs: Mapping[str, str],
    *,
    only_check: bool = False,
) -> None:
    """CreateTopics: create a topic with these brokers for the replicas of each partition; or only have Kafka check whether it would."""
    request = CreateTopicsRequest
    wanted = request.CreatableTopic(
        name=topic,
        num_partitions=-1,  # as assigned
        replication_factor=-1,
        assignments=[
            request.CreatableTopic.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignments)
        ],
        configs=[
            request.CreatableTopic.CreatableTopicConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )
    answer = link.send(
        request(topics=[wanted], timeout_ms=link.timeout_ms, validate_only=only_check), link.any_broker()
    )
    results = ((each.name, each.error_code, each.error_message) for each in answer.topics)
    settle("Kafka does not create topic", failures(results))


def choose_dirs(link: Connection, topic: str, dirs: Iterable[tuple[int, int, str]]) -> None:
    """Have brokers create replicas of a topic, as (broker, partition, path), in these log dirs.

    Raises:
        NotPlacedError: a broker rejected some of them.
    """
    by_broker: dict[int, list[tuple[str, int, str]]] = {}
    for broker, index, path in dirs:
        by_broker.setdefault(broker, []).append((topic, index, path))
    for broker, placements in by_broker.items():
        place(link, broker, placements)


def add_partitions(
    link: Connection,
    topic: str,
    first: int,
    assignments: Sequence[Sequence[int]],
    *,
    only_check: bool = False,
) -> None:
    """CreatePartitions: add partitions from number ``first`` on, with these brokers for the replicas of each; or only have Kafka check whether it would.

    Kafka counts them: if the topic has others by then, the number of assignments does not fit, and it rejects the request.
    """
    request = CreatePartitionsRequest
    wanted = request.CreatePartitionsTopic(
        name=topic,
        count=first + len(assignments),
        assignments=[
            request.CreatePartitionsTopic.CreatePartitionsAssignment(broker_ids=list(brokers))
            for brokers in assignments
        ],
    )
    answer = link.send(
        request(topics=[wanted], timeout_ms=link.timeout_ms, validate_only=only_check), link.any_broker()
    )
    results = ((each.name, each.error_code, each.error_message) for each in answer.results)
    settle("Kafka does not add partitions to topic", failures(results))


def delete_topic(link: Connection, topic: str, topic_id: str) -> None:
    """DeleteTopics by id (KIP-516); a topic that does not exist any more is not an error."""
    request = DeleteTopicsRequest
    wanted = request.DeleteTopicState(name=None, topic_id=_uuid(topic_id))
    answer = link.send(
        request(topics=[wanted], timeout_ms=link.timeout_ms, min_version=_BY_ID), link.any_broker()
    )
    results = ((topic, each.error_code, each.error_message) for each in answer.responses)
    settle("Kafka does not delete topic", failures(results, (_UNKNOWN_TOPIC_ID,)))


def _uuid(text: str) -> uuid.UUID:
    """An id in Kafka's text form."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{text}=="))


def trim(link: Connection, partitions: Iterable[tuple[str, int, int, float]]) -> None:
    """DeleteRecords: delete a share of the oldest records, by offsets, for each (topic, partition, leader, share)."""
    by_leader: dict[int, dict[tuple[str, int], float]] = {}
    for topic, index, leader, share in partitions:
        by_leader.setdefault(leader, {})[topic, index] = share
    failed: list[str] = []
    for leader, shares in by_leader.items():
        first, last = (_offsets(link, leader, shares, when) for when in (EARLIEST, LATEST))
        until = {
            key: first[key] + int(shares[key] * (last[key] - first[key]))
            for key in first.keys() & last.keys()
        }
        failed += _delete_before(link, leader, until)
    settle("Kafka does not delete records of", failed)


def _offsets(
    link: Connection, leader: int, keys: Iterable[tuple[str, int]], when: int
) -> dict[tuple[str, int], int]:
    """First or next offset of each partition, from its leader; partitions without a result are omitted."""
    return {key: found.offset for key, found in list_offsets(link, leader, keys, when).items()}


def _delete_before(link: Connection, leader: int, until: Mapping[tuple[str, int], int]) -> list[str]:
    """Returns the rejected partitions."""
    topic_of = DeleteRecordsRequest.DeleteRecordsTopic
    topics: dict[str, list[Any]] = {}
    for (topic, index), offset in until.items():
        asked = topic_of.DeleteRecordsPartition(partition_index=index, offset=offset)
        topics.setdefault(topic, []).append(asked)
    wanted = [topic_of(name=name, partitions=asked) for name, asked in topics.items()]
    answer = link.send(DeleteRecordsRequest(topics=wanted, timeout_ms=link.timeout_ms), leader)
    return failures(
        (f"{topic.name}-{p.partition_index}", p.error_code, None)
        for topic in answer.topics
        for p in topic.partitions
    )


def elect(link: Connection, partitions: Iterable[tuple[str, int]], *, unclean: bool = False) -> None:
    """ElectLeaders: the preferred ones, or (``unclean``, which loses records) any live replica.

    A partition that needs no election is not an error.
    """
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    request = ElectLeadersRequest(
        election_type=ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED,
        topic_partitions=[ElectLeadersRequest.TopicPartitions(*topic) for topic in topics.items()],
        timeout_ms=link.timeout_ms,
    )
    answer = link.send(request, link.any_broker())
    expect(answer.error_code, "ElectLeaders")
    results = (
        (f"{topic.topic}-{p.partition_id}", p.error_code, p.error_message)
        for topic in answer.replica_election_results
        for p in topic.partition_result
    )
    settle("no leader is elected for", failures(results, (_ELECTION_NOT_NEEDED,)))


def settle(what: str, failed: Sequence[str]) -> None:
    """Raise an error for rejected parts.

    Raises:
        RejectedError: there are any.
    """
    if failed:
        raise RejectedError(f"{what} {some(failed)}")


# The admin principal


def admin_granted(link: Connection) -> bool:
    """Whether the admin principal has its ACLs."""
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    wanted = ACLFilter(_ADMIN, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
    acls, _ = link.admin.describe_acls(wanted)
    have = {
        (acl.resource_pattern.resource_type, acl.resource_pattern.resource_name)
        for acl in acls
        if acl.operation is ACLOperation.ALL
        and acl.permission_type is ACLPermissionType.ALLOW
        and acl.host == "*"
    }
    return have >= set(_ADMIN_MAY)


def grant_admin(link: Connection) -> None:
    """Create the admin principal's ACLs; those that exist stay as they are."""
    result = link.admin.create_acls(
        [
            ACL(_ADMIN, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
            for kind, name in _ADMIN_MAY
        ]
    )
    for error in result["failed"]:
        raise error


def grant_rebalance(link: Connection) -> None:
    """Create the ACLs of the rebalance job's principal; those that exist stay as they are."""
    result = link.admin.create_acls(
        [
            ACL(_REBALANCE, "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
            for kind, name, operation in _REBALANCE_MAY
        ]
    )
    for error in result["failed"]:
        raise error


_REBALANCE: Final = f"User:{names.PRINCIPAL_REBALANCE}"
_REBALANCE_MAY: Final = (
    (ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE),
    (ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE),
    (ResourceType.TOPIC, "*", ACLOperation.DESCRIBE_CONFIGS),
    (ResourceType.TOPIC, names.TOPIC_SAMPLES, ACLOperation.READ),
)
_ADMIN: Final = f"User:{names.PRINCIPAL_ADMIN}"
_ADMIN_MAY: Final = (
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.DELEGATION_TOKEN, "*"),
)
