"""Inputs of preflight: the node's ConfigMap, and the pod's annotations through the downward API."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spindle.api import names
from spindle.model.dir_list import DirList, parse_list
from spindle.model.disk_facts import Clearance, Expected, InspectionId
from spindle.model.layout import Layout

_NONCE_FILE: Final = "look.nonce"
_NONCE_BYTES: Final = 16
_LINE: Final = re.compile(r'^([^=\s]+)="(.*)"$')
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))")
_SINGLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Voter:
    """One voter of the initial quorum."""

    id: int
    host: str
    port: int
    directory_id: str


@dataclass(frozen=True)
class Node:
    """Contents of ``node.json`` and ``server.properties``.

    Attributes:
        properties: ``server.properties``, complete except for ``log.dirs``.
        bind: address on which the metrics listen; empty for all addresses.
    """

    cluster_id: str
    node_id: int
    role: str
    release_version: str
    shared_filesystem: bool
    voters: tuple[Voter, ...]
    properties: str
    bind: str = ""

    @property
    def controller(self) -> bool:
        """Whether this is a controller."""
        return self.role == names.ROLE_CONTROLLER


def read_node(layout: Layout) -> Node:
    """Read the ConfigMap.

    Raises:
        OSError, ValueError, KeyError: it is incomplete.
    """
    folder = Path(layout.config_dir)
    document = json.loads((folder / "node.json").read_text())
    return Node(
        cluster_id=document["clusterId"],
        node_id=int(document["nodeId"]),
        role=document["role"],
        release_version=document["releaseVersion"],
        shared_filesystem=bool(document.get("sharedFilesystem", False)),
        voters=tuple(
            Voter(int(voter["id"]), voter["host"], int(voter["port"]), voter["directoryId"])
            for voter in document.get("voters", ())
        ),
        properties=(folder / "server.properties").read_text(),
        bind=os.environ.get(names.ENV_METRICS_BIND) or document.get("bind", ""),
    )


def read_disks(layout: Layout, node: Node) -> list[Expected]:
    """The disks that the pod should find, from its annotation.

    Raises:
        OSError, ValueError, KeyError: the annotation is missing or cannot be parsed.
    """
    return [
        Expected(
            cluster_id=node.cluster_id,
            node_id=node.node_id,
            disk=disk["name"],
            directory_id=disk["directoryId"],
            fs_uuid=disk.get("fsUuid"),
            mode=disk["mode"],
            controller=node.controller,
            shared_filesystem=node.shared_filesystem,
        )
        for disk in json.loads(annotations(layout)[names.ANN_DISKS])
    ]


def begin_look(layout: Layout) -> str:
    """Create the nonce that a clearance must repeat, and store it for the second init container. This invalidates earlier inspections.

    Raises:
        OSError: the nonce cannot be written.
    """
    nonce = os.urandom(_NONCE_BYTES).hex()
    (Path(layout.handover_dir) / _NONCE_FILE).write_text(nonce)
    return nonce


def read_look(layout: Layout) -> InspectionId:
    """The inspection that clearances must refer to.

    Raises:
        OSError, KeyError, ValueError: there was no inspection, or the pod's UID is missing.
    """
    nonce = (Path(layout.handover_dir) / _NONCE_FILE).read_text()
    pod_uid = os.environ[names.ENV_POD_UID]
    if not nonce or not pod_uid:
        raise ValueError("the disk inspection stored no nonce, or the pod has no UID")
    return InspectionId(nonce=nonce, pod_uid=pod_uid)


def read_clearances(layout: Layout) -> list[Clearance]:
    """The clearances that the operator has issued so far; none while the annotation is missing or incomplete."""
    try:
        entries = json.loads(annotations(layout).get(names.ANN_CLEARANCE) or "[]")
        return [_clearance(entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"the clearances cannot be read: {error!r}", flush=True)  # noqa: T201 - an init container's log is its output
        return []


def read_log_dirs(layout: Layout) -> DirList:
    """The operator's list of the broker's log dirs; `NO_LIST` if there is none."""
    return parse_list(annotations(layout).get(names.ANN_LOG_DIRS))


def read_leaving(layout: Layout) -> frozenset[str]:
    """Disks that are used only if they hold a replica, according to the operator.

    Raises:
        OSError: the pod's annotations cannot be read.
    """
    return frozenset(filter(None, annotations(layout).get(names.ANN_LEAVING, "").split(",")))


def annotations(layout: Layout) -> dict[str, str]:
    """The pod's annotations, from the file that the kubelet keeps up to date (``key="value"``, quoted as Go does)."""
    result = {}
    for line in (Path(layout.podinfo_dir) / "annotations").read_text().splitlines():
        if (match := _LINE.match(line)) is not None:
            result[match[1]] = unquote(match[2])
    return result


def unquote(text: str) -> str:
    """Decode the escapes inside a quoted Go string."""

    def one(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else _SINGLE.get(match[4], match[4])

    return _ESCAPE.sub(one, text)


def _clearance(entry: dict[str, Any]) -> Clearance:
    return Clearance(
        disk=entry["disk"],
        directory_id=entry["directoryId"],
        fs_uuid=entry.get("fsUuid") or None,
        pv_uid=entry.get("pvUid"),
        nonce=entry.get("nonce"),
        pod_uid=entry.get("podUid"),
    )
