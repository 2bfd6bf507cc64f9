"""Rule 1 on a live cluster: formatting the last in-sync replica's disk would lose acknowledged records, and is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType

from spindle.disks.rules import may_format
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for


@pytest.fixture(
    scope="module",
    params=[pytest.param(True, id="elr"), pytest.param(False, id="no-elr", marks=pytest.mark.slow)],
)
def cluster(request: pytest.FixtureRequest, make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=2, disks=2)
    made.up()
    if not request.param:
        answer = made.admin().update_features({"eligible.leader.replicas.version": ("SAFE_DOWNGRADE", 0)})
        assert answer == {"eligible.leader.replicas.version": "OK"}
    return made


def test_disk_of_the_last_in_sync_replica_is_not_formatted(cluster: Cluster) -> None:
    leader, follower = cluster.brokers
    cluster.make_topic("t", [[0, 1], [0, 1]], **{"min.insync.replicas": "1"})
    for partition in (0, 1):
        cluster.produce("t", partition, [b"first"] * 50)
    wait_for("both in sync", lambda: cluster.isr("t") == {0: [0, 1], 1: [0, 1]})
    held = {
        partition["partition_index"]: Path(path).parent.name
        for path, entry in cluster.log_dirs(0).items()
        for topic in entry["topics"]
        if topic["name"] == "t"
        for partition in topic["partitions"]
    }
    lost, kept = 0, 1
    assert held[lost] != held[kept]
    disk = held[lost]
    everywhere = cluster.view()
    refused_now = may_format(everywhere, 0, [("t", lost)])
    assert refused_now is not None, "this broker stands in the ISR"

    # The follower goes, the leader acknowledges alone, then its disk dies under it.
    cluster.forget_admin()
    follower.kill()
    wait_for("the leader alone", lambda: cluster.isr("t") == {0: [0], 1: [0]})
    cluster.produce("t", lost, [b"second"] * 50)
    slot = leader.slots[disk]
    assert slot.disk is not None
    slot.disk.die()
    # Given up after five seconds: a record that still waits keeps its client sending (kafka-python 3.0.12 does not
    # close it), and would come after the survivor has been elected.
    brief = dict.fromkeys(("request_timeout_ms", "max_block_ms", "delivery_timeout_ms"), 5000)
    with pytest.raises(KafkaError):
        cluster.produce("t", lost, [b"third"], retries=0, **brief)
    wait_for("an offline dir", lambda: cluster.log_dirs(0)[leader.log_dir(disk)]["error_code"] == 56)

    # The follower is back, with half of the records: it may not lead, and the disk may not be formatted.
    follower.start()
    follower.wait_ready()
    cluster.forget_admin()
    wait_for("no leader", lambda: cluster.partitions("t")[lost].leader is None)
    refused = may_format(cluster.view(), 0, [("t", lost)])
    assert refused is not None
    assert refused.rule == 1
    assert refused.objects == ("t-0",)
    everything = may_format(cluster.view(), 0, None)
    assert everything is not None
    assert "t-0" in everything.objects

    # The loss is accepted by name: the survivor is elected first, only then the disk is formatted.
    cluster.admin().elect_leaders(ElectionType.UNCLEAN, {"t": [lost]})
    wait_for("the survivor leads", lambda: cluster.partitions("t")[lost].leader == 1)
    wait_for("nothing against it", lambda: may_format(cluster.view(), 0, [("t", lost)]) is None, 20)
    cluster.forget_admin()
    leader.stop()
    slot.disk.unmount()
    slot.disk.wipe()
    slot.directory_id = cluster.directory_id(0, disk, generation=1)
    slot.fs_uuid = None
    leader.up()
    leader.wait_ready()
    wait_for("both in sync again", lambda: cluster.isr("t") == {0: [0, 1], 1: [0, 1]})
    assert cluster.end_offset("t", lost) == 50
    assert cluster.end_offset("t", kept) == 50
