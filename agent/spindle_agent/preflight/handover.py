"""Files that preflight passes to Kafka's container: final configuration, scripts, the metrics agent, the list of disks."""

import os
import shlex
import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from spindle.model.disk_facts import Expected
from spindle.model.layout import Layout
from spindle_agent.preflight.inputs import Node

JMX_JAR: Final = "/opt/spindle/jmx.jar"  # in Spindle's image
FORMAT_ARGS: Final = "format.args"
_COPIED: Final = ("start.sh", "ready.sh", "metrics.sh", "logging.sh", "log4j2.properties", "jmx.yaml")


def hand_over(layout: Layout, node: Node, disks: list[Expected]) -> None:
    """Write everything that ``start.sh`` needs; files of an earlier attempt are replaced."""
    folder = Path(layout.handover_dir)
    data = resources.files("spindle_agent.preflight").joinpath("data")
    for name in _COPIED:
        (folder / name).write_bytes(data.joinpath(name).read_bytes())
    jar = Path(os.environ.get("SPINDLE_JMX_JAR", JMX_JAR))
    if not (folder / "jmx.jar").exists():
        shutil.copyfile(jar, folder / "jmx.jar.tmp")
        (folder / "jmx.jar.tmp").replace(folder / "jmx.jar")
    dirs = ",".join(layout.log_dir(disk.disk) for disk in disks)
    # Only line ends are removed: a value that is a space is written as a backslash and a space, and without the space it would continue on the next line.
    properties = node.properties.rstrip("\n")
    (folder / "server.properties").write_text(f"{properties}\nlog.dirs={dirs}\n")
    (folder / "node.env").write_text(_environment(layout, node))
    (folder / "disks.list").write_text(
        "".join(
            f"{disk.mode} {layout.mount(disk.disk)} {layout.log_dir(disk.disk)} {disk.directory_id}\n"
            for disk in disks
        )
    )


def write_format_args(layout: Layout, node: Node) -> None:
    """Arguments of Kafka's StorageTool for a controller of the initial quorum, one per line."""
    voters = ",".join(f"{v.id}@{v.host}:{v.port}:{v.directory_id}" for v in node.voters)
    arguments = [
        "format",
        "--cluster-id",
        node.cluster_id,
        "--config",
        f"{layout.handover_dir}/server.properties",
        "--release-version",
        node.release_version,
        "--initial-controllers",
        voters,
    ]
    (Path(layout.handover_dir) / FORMAT_ARGS).write_text("\n".join(arguments) + "\n")


def _environment(layout: Layout, node: Node) -> str:
    """Shell variable assignments; values from the ConfigMap are quoted, so that they are never commands."""
    values = {
        "ROLE": node.role,
        "DISKS_ROOT": layout.disks_root,
        "SHARED_FILESYSTEM": "yes" if node.shared_filesystem else "no",
        "BIND": node.bind,
    }
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
