"""The stand-ins of the benchmarks say what they were told to."""

from typing import Any

from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

from bench.fleet.brokers import Brokers
from bench.fleet.shape import Shape

BROKER = 1
VERSION = 2


def asked(brokers: Brokers, request: Any, answer: Any) -> Any:
    request.API_VERSION = VERSION
    request.with_header(7)
    frame = bytes(request.encode(header=True))
    return answer.decode(brokers._answer(BROKER, frame), version=VERSION, header=True, framed=True)


def log_dirs(brokers: Brokers) -> dict[str, tuple[int, set[tuple[str, int]]]]:
    answer = asked(brokers, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {
        each.log_dir: (
            each.error_code,
            {(topic.name, one.partition_index) for topic in each.topics for one in topic.partitions},
        )
        for each in answer.results
    }


def move(brokers: Brokers, path: str, topic: str, partition: int) -> int:
    one = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    to = one(path=path, topics=[one.AlterReplicaLogDirTopic(name=topic, partitions=[partition])])
    answer = asked(brokers, AlterReplicaLogDirsRequest(dirs=[to]), AlterReplicaLogDirsResponse)
    return int(answer.results[0].partitions[0].error_code)


def test_a_replica_is_where_it_was_told_to_be() -> None:
    brokers = Brokers(Shape(3), 9091, growing=False)
    before = log_dirs(brokers)
    first, second = sorted(before)[:2]
    topic, partition = min(before[first][1])
    assert move(brokers, second, topic, partition) == 0
    after = log_dirs(brokers)
    assert after[first][1] == before[first][1] - {(topic, partition)}
    assert after[second][1] == before[second][1] | {(topic, partition)}
    assert move(brokers, "/elsewhere", topic, partition) == 57


def test_a_disk_that_died_has_an_error_and_nothing_moves_on_its_broker() -> None:
    brokers = Brokers(Shape(3), 9091, growing=False)
    before = log_dirs(brokers)
    brokers.offline.add((BROKER, 0))
    brokers.forget(BROKER)
    after = log_dirs(brokers)
    dead = next(path for path, (error, _) in after.items() if error)
    assert after[dead] == (56, set())
    assert {path: of for path, of in after.items() if path != dead} == {
        path: of for path, of in before.items() if path != dead
    }
    other = next(path for path in before if path != dead)
    assert move(brokers, other, *min(before[other][1])) == 56
