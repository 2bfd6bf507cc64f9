"""Makes the pictures of the map in the manual from sample objects, with a real API server and a real browser: ``python -m tools.map_picture``."""

import tempfile
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config

from e2e.chromium import Chromium, find_chromium
from e2e.cluster.apiserver import ApiServer
from tests import map_samples
from tests.kube.api import Resources
from tests.map_server import put, spindle_ui

ROOT: Final = Path(__file__).resolve().parents[1]
_IMAGES: Final = ROOT / "docs/images"
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


def main() -> None:
    """Write both pictures."""
    program = find_chromium()
    if program is None:
        raise SystemExit("there is no Chromium on this machine")
    _IMAGES.mkdir(exist_ok=True)
    with ApiServer() as server, tempfile.TemporaryDirectory() as folder:
        server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(ROOT / "crds"))
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
            tab.screenshot(_IMAGES / "map.png")
            tab.evaluate("document.querySelector('.cell[data-state=Evacuating]').click()")
            tab.wait("document.querySelector('.history')")
            tab.dark(on=True)
            tab.screenshot(_IMAGES / "map-disk.png")


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


if __name__ == "__main__":
    main()
