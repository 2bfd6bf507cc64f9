"""Kafka's classes as JVMs map them in (class data sharing): made once, and each broker of these tests starts with a third less work."""

import functools
import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from e2e.cluster.build import artefact, ensure_kafka_libs, run

_ARCHIVE: Final = "kafka.jsa"


@functools.cache
def options(version: str) -> str:
    """Of a JVM that runs this release of Kafka. One that the archive does not fit (other jars, another Java) starts without it."""
    libs = ensure_kafka_libs(version)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    # It holds the path and the age of each jar.
    key = hashlib.sha256(f"{java}{libs}{libs.stat().st_mtime_ns}".encode()).hexdigest()
    folder = artefact("kafka-classes", version, key, lambda part: _make(part, version, libs))
    return f"-XX:SharedArchiveFile={folder / _ARCHIVE}"


def _make(folder: Path, version: str, libs: Path) -> None:
    """Have a controller and a broker tell what they load, from their start to their end."""
    from tests.kafka.cluster import Cluster

    with TemporaryDirectory() as base:
        cluster = Cluster(Path(base) / "cluster", brokers=1, disks=1, version=version)
        for node in cluster.nodes.values():
            node.jvm = f"-XX:DumpLoadedClassList={folder}/{node.node_id}.list"
        try:
            cluster.up()
            cluster.make_topic("t", [[0]])
            cluster.produce("t", 0, [b"x"])
            assert cluster.end_offset("t", 0) == 1
            cluster.forget_admin()
            for node in (*cluster.brokers, cluster.controller):
                node.stop()
        finally:
            cluster.down()
    lists = sorted(folder.glob("*.list"))
    lines = dict.fromkeys(line for each in lists for line in each.read_text().splitlines())
    classes = folder / "classes"
    classes.write_text("".join(f"{line}\n" for line in lines if not line.startswith("#")))
    for each in lists:
        each.unlink()
    dump = (
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={folder / _ARCHIVE}",
    )
    run("the archive of Kafka's classes", "java", *dump, "-XX:+UseSerialGC", "-cp", f"{libs}/*")
