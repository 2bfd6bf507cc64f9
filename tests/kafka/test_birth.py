"""A cluster is born: every disk becomes a log dir with the directory id on record, and no one gets in without a certificate."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.disks.identity import parse_meta_properties
from tests.kafka.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=2)
    made.up()
    return made


def test_every_disk_is_a_log_dir_with_its_directory_id(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    said = cluster.log_dirs(0)
    assert set(said) == {broker.log_dir("disk0"), broker.log_dir("disk1")}
    assert [entry["error_code"] for entry in said.values()] == [0, 0]
    for name, slot in broker.slots.items():
        meta = parse_meta_properties(Path(broker.log_dir(name), "meta.properties").read_text())
        assert meta.directory_id == slot.directory_id
        identity = json.loads((broker.mount(name) / "spindle.json").read_text())
        assert identity["directoryId"] == slot.directory_id
        assert identity["fsUuid"] == slot.fs_uuid
