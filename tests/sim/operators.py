"""The operator's processes: its real loop, observation, executor and report, on a simulated API server and simulated requests to Kafka."""

import asyncio
import base64
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import SimpleNamespace as Answer
from typing import Any

from kafka.admin import ACLOperation, ResourceType
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, for_code
from kafka.protocol.admin import (
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsResponse,
)

from spindle.api import names
from spindle_operator import handlers, kinds, lease, starts
from spindle_operator import kafka_executor as gates
from spindle_operator import kube as kubes
from spindle_operator import loop as loops
from spindle_operator.connection import Access
from spindle_operator.health import Health
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.raw_answers import RawAnswer
from spindle_operator.report import Events
from spindle_shared.api_answers import ApiError
from tests.sim.api import NAMESPACE, SYSTEM, Json, Refused, Request
from tests.sim.kafka.state import KafkaFault
from tests.sim.loop import Fiber, Process
from tests.sim.net import Net
from tests.sim.watches import Watches

_TIMEOUT = 5.0


class SimKube(kubes.Kube):
    """The operator's own connection, whose requests go to the simulated server."""

    def __init__(self, process: Process, net: Net, watches: Watches | None = None) -> None:
        self._process, self._net, self._of_watches = process, net, watches

    async def token(self) -> str | None:
        return None

    async def close(self) -> None:
        return None

    async def watch(
        self, kind: kinds.Kind, namespace: str | None, selector: str | None, version: str, *, whole: bool
    ) -> AsyncGenerator[Json | None, None]:
        assert self._of_watches is not None
        process = self._process
        async for found in self._of_watches.watch(
            process,
            lambda: self._net.linked(process.name, "api"),
            kind,
            namespace,
            selector,
            version,
            whole=whole,
        ):
            yield found

    async def _retried(self, method: str, path: str, *args: Any, **more: Any) -> Json:
        try:  # most requests need no retry, and the retry policy costs more than they do
            return await self.request(method, path, *args, **more)
        except ApiError as error:
            if not kubes._passing(error):
                raise
        return await super()._retried(method, path, *args, **more)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as the original
        accept: str = "application/json",
        within: kubes.ByteBudget | None = None,  # no object here is that large
    ) -> Json:
        asked = Request(names.FIELD_MANAGER, method, path, dict(query or {}), body, content_type, accept)
        limit = 30.0 if timeout is None else timeout
        try:
            answer: Json = await self._net.ask_api(self._process, asked, limit, self._process.name)
        except Refused as error:
            raise ApiError(error.status, error.reason, error.message, error.causes) from None
        if "items" in answer:
            return answer
        return {**answer, "metadata": dict(answer["metadata"])} if "metadata" in answer else dict(answer)


class SimKafkaClient(KafkaClient):
    """The operator's own connection to Kafka, whose messages go to the simulated brokers."""

    def __init__(
        self, world: Any, process: Process, cluster: str, hosts: Mapping[int, str], timeout: float
    ) -> None:
        self._world, self._process = world, process
        self._cluster = cluster
        self.hosts = hosts
        self.timeout_ms = int(timeout * 1000)
        self._failed = False
        self._unsaid = []
        self.silent = set()
        self._limit = 1.25 * timeout
        self.admin = world.acls

    def close(self) -> None:
        return None

    def send(self, request: Any, node: int) -> Any:
        if node in self.silent:
            raise ConnectionError(f"broker {node} did not answer a moment ago")
        name = type(request).__name__
        ask = _MESSAGES[name]
        try:
            answer = self._world.net.ask_kafka(
                self._process.name,
                self._world.node_of(node),
                self._limit,
                lambda: self._perform(ask, request, node),
            )
        except TimeoutError:
            self.silent.add(node)
            raise KafkaTimeoutError(f"no answer within {self._limit:g} s") from None
        except KafkaFault as error:
            raise for_code(error.code)(error.message) from None
        return _encoded(_UNDECODED[name], answer) if name in _UNDECODED else answer

    def _perform(self, ask: Callable[[Any, Any, int], Any], request: Any, node: int) -> Any:
        if not self._world.answers(node):
            raise KafkaConnectionError(f"broker {node} accepts no connections")
        try:
            return ask(self._world.kafka, request, node)
        except Exception as error:
            if type(error).__name__ == "KafkaFault":
                raise for_code(error.code)(error.message) from None  # type: ignore[attr-defined]
            if type(error).__name__ == "Timeout":
                assert Fiber.running is not None
                Fiber.running.sleep(self._limit)
                raise TimeoutError from None
            raise

    def side_by_side(self, ask: Callable[[int], Any], nodes: Sequence[int]) -> list[Any]:
        # One after the other, each with its own events in between: a silent broker costs an observation one time-out either way.
        return [ask(node) for node in nodes]


class SimKafkaExecutor(gates.KafkaExecutor):
    """The operator's own executor for Kafka."""

    def __init__(self, cluster: str, timeout: float) -> None:
        super().__init__(cluster, timeout)
        self._process: Any = asyncio.get_running_loop()

    async def close(self) -> None:
        self._link, self._identity = None, ""

    async def shutdown(self) -> None:
        await self.close()

    async def _renewed(self, access: Access) -> KafkaClient:
        if self._link is None or self._identity != access.identity:
            await self.close()
            world = self._process.world
            hosts = {}
            for node, host in access.hosts.items():
                reached = all(
                    world.net.linked(self._process.name, to) for to in (world.node_of(node), "kafka")
                )
                if not reached:
                    await asyncio.sleep(self._timeout / len(access.hosts))
                elif world.answers(node):
                    await asyncio.sleep(0.003)
                    hosts[node] = host
            if not hosts:
                raise ConnectionError(f"none of the {len(access.hosts)} running brokers accepts connections")
            self._link = SimKafkaClient(world, self._process, self._cluster, hosts, self._timeout)
            self._identity = access.identity if len(hosts) == len(access.hosts) else ""
        return self._link

    async def _threaded(self, call: Callable[[], Any]) -> Any:
        if self._busy is not None and not self._busy.done():
            raise TimeoutError("an earlier request to Kafka has not been answered yet")
        future = self._process.fiber(call)
        self._busy = future
        return await asyncio.wait_for(asyncio.shield(future), timeout=12 * self._timeout)


class Operator:
    """One of the operator's pods: is on standby, leads, is killed, restarts."""

    def __init__(self, world: Any, letter: str) -> None:
        self.world = world
        self.name = f"op-{letter}"
        self.starts = 0
        self.process: Process | None = None
        self.passes = 0
        self.last: Any = None
        self.skew = 0.0
        self._loops: loops.Loops | None = None
        self._digests = handlers.Digests()
        self._stale = False
        world.api.watchers.append(self._changed)

    @property
    def leading(self) -> bool:
        """Whether it reconciles."""
        return self.process is not None and self.process.alive and self._loops is not None

    def start(self) -> None:
        """A new process."""
        self.starts += 1
        process = Process(self.world.kernel, self.name, lambda: self.skew)
        process.world = self.world
        process.on_error = self._unhandled
        self.process, self._loops = process, None
        process.start(self._main(process, f"{self.name}-{self.starts}"))

    def kill(self, *, again_in: float = 5.0) -> None:
        """SIGKILL; the kubelet starts it again."""
        if self.process is not None:
            self.process.kill()
            self.world.graves.append((self.process, self._loops))
        self._loops = None
        self.world.kernel.call_later(again_in, self._again)

    def _again(self) -> None:
        if self.process is None or not self.process.alive:
            self.start()

    def _unhandled(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self.world.bug(self.name, error)

    async def _main(self, process: Process, identity: str) -> None:
        kube = SimKube(process, self.world.net, self.world.watches)
        elector = lease.Elector(kube, SYSTEM, "spindle-operator", identity)
        await elector.acquire()
        self.world.kernel.say(self.name, "leads")
        holding = asyncio.create_task(elector.hold(), name="lease")
        lost = asyncio.Event()
        events = SimEvents(self.world, kube, identity)
        self._digests = handlers.Digests()
        made = loops.Loops(
            loops.Setup(
                kube=kube,
                health=Health(),
                events=events,
                image="spindle:sim",
                agent_namespace=SYSTEM,
                namespace=SYSTEM,
                leading=lambda: elector.leading,
                lost=lost.set,
                kafka_timeout=_TIMEOUT,
                decide=self._decide,
                cached=self.world.watches is not None,
            )
        )
        self._loops = made
        for cluster in self.world.api.all("KafkaCluster"):
            made.seen(NAMESPACE, cluster["metadata"]["name"])
        waits = [asyncio.create_task(lost.wait()), holding]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        self.world.kernel.say(self.name, "ends", "the Lease is lost")
        self._loops = None
        await made.close()
        self.world.kernel.call_later(
            0.1, lambda: self.kill(again_in=3.0) if self.process is process else None
        )

    def _decide(self, snapshot: Any, now: float) -> Any:
        made = self.world.decide(snapshot, now)
        self.passes += 1
        self.last = made
        self.world.planned(self, snapshot, made)
        return made

    # -- watches

    def _changed(self, event: str, kind: str, obj: Json) -> None:
        if self._loops is None or kind not in _WATCHED:
            return
        if kind in _LABELLED and names.LABEL_CLUSTER not in (obj["metadata"].get("labels") or {}):
            return
        delay = 0.02 + 0.1 * self.world.kernel.rng.random()
        self.world.kernel.call_later(delay, lambda: self._deliver(event, kind, obj))

    def _deliver(self, event: str, kind: str, obj: Json) -> None:
        if self._loops is None or self.process is None or not self.process.alive:
            return
        if not self.world.net.linked(self.name, "api") or self.world.api.away:
            if not self._stale:
                self._stale = True
                self.world.kernel.call_later(5.0, self._relist)
            return
        what = kinds.KINDS[kind]
        weight = self._digests.classify(what, event, obj)
        if weight is not handlers.Weight.NOISE:
            with self.process.current():
                handlers.wake(self._loops, what, obj, urgent=weight is handlers.Weight.ALARM)

    def _relist(self) -> None:
        """A broken watch restarts with a list."""
        self._stale = False
        for kind in sorted(_WATCHED):
            for obj in self.world.api.all(kind):
                if kind not in _LABELLED or names.LABEL_CLUSTER in (obj["metadata"].get("labels") or {}):
                    self._deliver("ADDED", kind, obj)
                if self._stale:
                    return


class SimEvents(Events):
    """Events are part of the story as well."""

    def __init__(self, world: Any, kube: SimKube, identity: str) -> None:
        super().__init__(kube, identity)
        self._world = world

    async def post(self, namespace: str, events: Any) -> None:
        for event in events:
            if self._is_news(namespace, event):
                self._world.event(event)


_WATCHED = frozenset(kind.kind for kind in (*handlers.OWN, *handlers.LABELLED, kinds.NODE))
_LABELLED = frozenset(kind.kind for kind in handlers.LABELLED)


async def _no_starts(*_: Any, **__: Any) -> dict[int, Any]:
    return {}


def patches() -> list[tuple[Any, str, Any]]:
    """The parts of the operator's edge that are replaced."""
    return [(loops, "KafkaExecutor", SimKafkaExecutor), (starts, "look", _no_starts)]


# What the operator decodes itself, only if it changed.
_UNDECODED: Mapping[str, Any] = {
    "DescribeTopicPartitionsRequest": DescribeTopicPartitionsResponse,
    "DescribeLogDirsRequest": DescribeLogDirsResponse,
    "DescribeConfigsRequest": DescribeConfigsResponse,
}


def _encoded(kind: Any, answer: Answer) -> RawAnswer:
    """A response as Kafka sends it."""
    return RawAnswer(kind[kind.max_version], bytes(_message(kind, answer, kind.max_version).encode()))


def _message(kind: Any, answer: Answer, version: int) -> Any:
    values = {}
    for field in kind._struct._fields:
        if hasattr(answer, field.name):
            value = getattr(answer, field.name)
            if field.is_struct_array():
                value = [_message(getattr(kind, field.type_str), each, version) for each in value]
            values[field.name] = value
    return kind(version=version, **values)


# --- Kafka's messages -------------------------------------------------------------------------------------------------


def _quorum(kafka: Any, request: Any, node: int) -> Any:
    told = kafka.request(node, "describe_quorum")

    def replica(each: Mapping[str, Any]) -> Answer:
        return Answer(
            replica_id=each["id"],
            replica_directory_id=uuid.UUID(bytes=base64.urlsafe_b64decode(each["directory_id"] + "==")),
            log_end_offset=each["log_end_offset"],
            last_caught_up_timestamp=int(each["last_caught_up"] * 1000),
        )

    state = Answer(
        error_code=0,
        leader_id=told["leader"],
        current_voters=[replica(v) for v in told["voters"]],
        observers=[replica(v) for v in told["observers"]],
    )
    return Answer(error_code=0, topics=[Answer(partitions=[state])])


def _cluster(kafka: Any, request: Any, node: int) -> Any:
    told = kafka.request(node, "describe_cluster")
    brokers = [Answer(broker_id=b["id"], rack=b["rack"], is_fenced=b["fenced"]) for b in told["brokers"]]
    return Answer(
        error_code=0, error_message=None, cluster_id=told["cluster_id"], brokers=brokers, API_VERSION=2
    )


def _uuid(text: str) -> uuid.UUID:
    """An id in Kafka's notation."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def _partitions(kafka: Any, request: Any, node: int) -> Any:
    topics: dict[str, list[Answer]] = {}
    for p in kafka.request(node, "describe_topic_partitions"):
        topics.setdefault(p["topic"], []).append(
            Answer(
                partition_index=p["partition"],
                leader_id=-1 if p["leader"] is None else p["leader"],
                replica_nodes=p["replicas"],
                isr_nodes=p["isr"],
                eligible_leader_replicas=p["elr"],
            )
        )
    ids = kafka.truth_topic_ids()
    found = [
        Answer(error_code=0, name=name, topic_id=_uuid(ids[name]), partitions=ps)
        for name, ps in sorted(topics.items())
    ]
    return Answer(topics=found, next_cursor=None)


def _reassignments(kafka: Any, request: Any, node: int) -> Any:
    topics: dict[str, list[Answer]] = {}
    for (topic, index), (adding, removing) in kafka.request(node, "list_reassignments").items():
        entry = Answer(partition_index=index, adding_replicas=list(adding), removing_replicas=list(removing))
        topics.setdefault(topic, []).append(entry)
    found = [Answer(name=name, partitions=entries) for name, entries in topics.items()]
    return Answer(error_code=0, error_message=None, topics=found)


def log_dirs_answer(told: Any) -> Any:
    """The response to DescribeLogDirs."""
    results = []
    for each in told:
        topics: dict[str, list[Answer]] = {}
        for (topic, index), size in each["replicas"].items():
            entry = Answer(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
            topics.setdefault(topic, []).append(entry)
        for (topic, index), (size, lag) in each["futures"].items():
            entry = Answer(partition_index=index, partition_size=size, offset_lag=lag, is_future_key=True)
            topics.setdefault(topic, []).append(entry)
        results.append(
            Answer(
                log_dir=each["path"],
                error_code=each["error"],
                total_bytes=-1 if each["total"] is None else each["total"],
                usable_bytes=-1 if each["usable"] is None else each["usable"],
                is_cordoned=each.get("cordoned", False),
                topics=[Answer(name=name, partitions=entries) for name, entries in topics.items()],
            )
        )
    return Answer(error_code=0, results=results)


def _log_dirs(kafka: Any, request: Any, node: int) -> Any:
    return log_dirs_answer(kafka.request(node, "describe_log_dirs"))


def _configs(kafka: Any, request: Any, node: int) -> Any:
    results = []
    for resource in request.resources:
        kind = {2: "topic", 4: "broker"}[resource.resource_type]
        name = resource.resource_name
        code, message, configs = 0, None, []
        try:
            told = kafka.request(
                node, "describe_configs", kind=kind, name=name, keys=list(resource.configuration_keys or ())
            )
        except Exception as error:
            if type(error).__name__ != "KafkaFault":
                raise
            code, message, told = error.code, error.message, {}  # type: ignore[attr-defined]
        for key, entry in told.items():
            synonyms = [Answer(name=n, value=v, source=s) for n, v, s in entry.get("synonyms", ())]
            configs.append(
                Answer(name=key, value=entry["value"], config_source=entry["source"], synonyms=synonyms)
            )
        results.append(Answer(error_code=code, error_message=message, resource_name=name, configs=configs))
    return Answer(results=results)


def _features(kafka: Any, request: Any, node: int) -> Any:
    told = kafka.request(node, "describe_features")
    found = [Answer(name=name, max_version_level=level) for name, level in told.items()]
    return Answer(error_code=0, finalized_features=found)


def _quota(kafka: Any, request: Any, node: int) -> Any:
    told = kafka.request(node, "describe_quota")
    values = [Answer(key=key, value=value) for key, value in told.items()]
    return Answer(error_code=0, error_message=None, entries=[Answer(values=values)] if values else [])


def _alter_quota(kafka: Any, request: Any, node: int) -> Any:
    values = {op.key: None if op.remove else op.value for entry in request.entries for op in entry.ops}
    kafka.request(node, "alter_quota", values=values)
    return Answer(entries=[Answer(error_code=0, error_message=None)])


def _place(kafka: Any, request: Any, node: int) -> Any:
    dirs = {d.path: [(t.name, i) for t in d.topics for i in t.partitions] for d in request.dirs}
    told = kafka.request(node, "alter_replica_log_dirs", dirs=dirs)
    topics = [
        Answer(topic_name=t, partitions=[Answer(partition_index=i, error_code=code)])
        for (t, i), code in told.items()
    ]
    return Answer(results=topics)


def _reassign(kafka: Any, request: Any, node: int) -> Any:
    wanted = {
        (t.name, p.partition_index): None if p.replicas is None else list(p.replicas)
        for t in request.topics
        for p in t.partitions
    }
    told = kafka.request(node, "alter_partition_reassignments", assignments=wanted, who="spindle-operator")
    responses = [
        Answer(name=t, partitions=[Answer(partition_index=i, error_code=code, error_message=text)])
        for (t, i), (code, text) in told.items()
    ]
    return Answer(error_code=0, error_message=None, responses=responses)


def _alter_configs(kafka: Any, request: Any, node: int) -> Any:
    responses = []
    for resource in request.resources:
        kind = {2: "topic", 4: "broker"}[resource.resource_type]
        values = {c.name: None if c.config_operation == 1 else c.value for c in resource.configs}
        code, text = kafka.request(
            node, "incremental_alter_configs", kind=kind, name=resource.resource_name, values=values
        )
        responses.append(Answer(error_code=code, error_message=text))
    return Answer(responses=responses)


def _elect(kafka: Any, request: Any, node: int) -> Any:
    unclean = int(request.election_type) == 1
    wanted = [(t.topic, i) for t in request.topic_partitions for i in t.partitions]
    told = kafka.request(node, "elect_leaders", partitions=wanted, unclean=unclean)
    results = [
        Answer(topic=t, partition_result=[Answer(partition_id=i, error_code=code, error_message=text)])
        for (t, i), (code, text) in told.items()
    ]
    return Answer(error_code=0, replica_election_results=results)


def _create_topics(kafka: Any, request: Any, node: int) -> Any:
    topics = []
    for topic in request.topics:
        assignments = [list(a.broker_ids) for a in sorted(topic.assignments, key=lambda a: a.partition_index)]
        configs = {c.name: c.value for c in topic.configs}
        code, text = kafka.request(
            node, "create_topics", topic=topic.name, assignments=assignments, configs=configs
        )
        topics.append(Answer(name=topic.name, error_code=code, error_message=text))
    return Answer(topics=topics)


def _list_offsets(kafka: Any, request: Any, node: int) -> Any:
    wanted = [(t.name, p.partition_index) for t in request.topics for p in t.partitions]
    which = {-2: "earliest", -1: "latest"}[request.topics[0].partitions[0].timestamp]
    told = kafka.request(node, "list_offsets", partitions=wanted, which=which)
    topics = [
        Answer(
            name=t,
            partitions=[Answer(partition_index=i, error_code=code, offset=offset, leader_epoch=epoch)],
        )
        for (t, i), (code, offset, epoch) in told.items()
    ]
    return Answer(topics=topics)


def _end_of_epochs(kafka: Any, request: Any, node: int) -> Any:
    wanted = {(t.topic, p.partition): p.leader_epoch for t in request.topics for p in t.partitions}
    told = kafka.request(node, "offset_for_leader_epoch", epochs=wanted)
    topics = [
        Answer(topic=t, partitions=[Answer(partition=i, error_code=code, end_offset=offset)])
        for (t, i), (code, offset) in told.items()
    ]
    return Answer(topics=topics)


def _delete_records(kafka: Any, request: Any, node: int) -> Any:
    wanted = {(t.name, p.partition_index): p.offset for t in request.topics for p in t.partitions}
    told = kafka.request(node, "delete_records", offsets=wanted)
    topics = [
        Answer(name=t, partitions=[Answer(partition_index=i, error_code=c)]) for (t, i), c in told.items()
    ]
    return Answer(topics=topics)


def _unregister(kafka: Any, request: Any, node: int) -> Any:
    code, text = kafka.request(node, "unregister_broker", broker=request.broker_id)
    return Answer(error_code=code, error_message=text)


def _directory(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def _add_voter(kafka: Any, request: Any, node: int) -> Any:
    directory = _directory(request.voter_directory_id)
    code, text = kafka.request(node, "add_voter", voter=request.voter_id, directory_id=directory)
    return Answer(error_code=code, error_message=text)


def _remove_voter(kafka: Any, request: Any, node: int) -> Any:
    directory = _directory(request.voter_directory_id)
    code, text = kafka.request(node, "remove_voter", voter=request.voter_id, directory_id=directory)
    return Answer(error_code=code, error_message=text)


def _update_features(kafka: Any, request: Any, node: int) -> Any:
    levels = {u.feature: u.max_version_level for u in request.feature_updates}
    code, text = kafka.request(node, "update_features", levels=levels)
    return Answer(error_code=code, error_message=text, results=[])


_MESSAGES: dict[str, Callable[[Any, Any, int], Any]] = {
    "DescribeQuorumRequest": _quorum,
    "DescribeClusterRequest": _cluster,
    "DescribeTopicPartitionsRequest": _partitions,
    "ListPartitionReassignmentsRequest": _reassignments,
    "DescribeLogDirsRequest": _log_dirs,
    "DescribeConfigsRequest": _configs,
    "ApiVersionsRequest": _features,
    "DescribeClientQuotasRequest": _quota,
    "AlterClientQuotasRequest": _alter_quota,
    "AlterReplicaLogDirsRequest": _place,
    "AlterPartitionReassignmentsRequest": _reassign,
    "IncrementalAlterConfigsRequest": _alter_configs,
    "ElectLeadersRequest": _elect,
    "CreateTopicsRequest": _create_topics,
    "ListOffsetsRequest": _list_offsets,
    "OffsetForLeaderEpochRequest": _end_of_epochs,
    "DeleteRecordsRequest": _delete_records,
    "UnregisterBrokerRequest": _unregister,
    "AddRaftVoterRequest": _add_voter,
    "RemoveRaftVoterRequest": _remove_voter,
    "UpdateFeaturesRequest": _update_features,
}


class Acls:
    """The part of the admin client that Spindle uses for ACLs; data does not depend on them."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def create_acls(self, acls: list[Any]) -> dict[str, list[Any]]:
        self.held += [acl for acl in acls if acl not in self.held]
        return {"succeeded": acls, "failed": []}

    def describe_acls(self, wanted: Any) -> tuple[list[Any], Any]:
        resource = wanted.resource_pattern.resource_type
        found = [
            acl
            for acl in self.held
            if wanted.principal in (None, acl.principal)
            and resource in (ResourceType.ANY, acl.resource_pattern.resource_type)
        ]
        return found, Answer(errno=0)

    def may_alter(self, user: str) -> bool:
        """Whether a principal may move replicas between dirs."""
        return any(
            acl.principal == f"User:{user}"
            and acl.resource_pattern.resource_type is ResourceType.CLUSTER
            and acl.operation is ACLOperation.ALTER
            for acl in self.held
        )

    def delete_acls(self, filters: list[Any]) -> list[tuple[Any, list[Any], Any]]:
        self.held = [acl for acl in self.held if acl not in filters]
        return [(each, [], Answer(errno=0)) for each in filters]
