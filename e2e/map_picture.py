"""The picture of the map of a large cluster: sample objects in a real API server, shown in a real browser."""

import tempfile
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config

from e2e.chromium import Chromium
from e2e.cluster.apiserver import ApiServer
from tests import map_samples
from tests.kube.api import Resources
from tests.map_server import put, spindle_ui

ROOT: Final = Path(__file__).resolve().parents[1]
_BROKERS, _DISKS = 18, 8
_WAITING: Final = (
    map_samples.waiting(
        "RestartBroker",
        "demo-broker-4",
        "WouldBeUnderMinIsr",
        "Partition payments-3 would have 1 in-sync replica without broker 4; its min.insync.replicas is 2.",
        "the replica of payments-3 on broker 1 being in sync again",
    ),
)


def picture_large(program: str, picture: Path) -> None:
    """Write the picture.

    Args:
        program: Chromium's path.
        picture: the file to write, a PNG of 1280 by 640 pixels.
    """
    with ApiServer() as server, tempfile.TemporaryDirectory() as folder:
        server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        server.wait_established("-f", str(ROOT / "crds"))
        with config.new_client_from_config(config_file=str(server.kubeconfig)) as api:
            _create(api)
        with spindle_ui(server.kubeconfig) as (url, _), Chromium(program, Path(folder)) as chromium:
            tab = chromium.tab()
            tab.resize(1280, 640)
            tab.open(url)
            tab.wait(f"document.querySelectorAll('.card .cell').length === {_BROKERS * _DISKS}")
            tab.wait("document.querySelector('.gain')")
            # The rate of a copy is known when its place was seen twice.
            with config.new_client_from_config(config_file=str(server.kubeconfig)) as api:
                later = map_samples.journal("demo", ago=60, copied=17 << 30)
                core: Any = client.CoreV1Api(api)
                core.replace_namespaced_config_map(later["metadata"]["name"], "default", later)
            tab.wait("document.getElementById('moves').innerText.includes('/s')")
            tab.screenshot(picture)


def _create(api: client.ApiClient) -> None:
    resources = Resources(api, "default")
    core: Any = client.CoreV1Api(api)  # it takes raw objects, too
    put(resources, map_samples.cluster("demo", _BROKERS, _DISKS, waiting=list(_WAITING)))
    for each in map_samples.brokers("demo", _BROKERS, _DISKS):
        made = put(resources, each)
        if each["spec"]["id"] == 1:
            for reason, message, ago, warning in (
                ("DiskFailed", "disk2 cannot serve its replicas.", 640, True),
                ("EvacuationStarted", "disk2 is being evacuated to other disks.", 600, False),
            ):
                core.create_namespaced_event(
                    "default", map_samples.event(made, reason, message, ago, warning=warning)
                )
    put(resources, map_samples.proposal("demo"))
    core.create_namespaced_config_map("default", map_samples.journal("demo", ago=120))
