"""The map of a large cluster against a real API server in a real browser: first picture, update, CPU time and memory.

python -m bench.disk_map --brokers 1000 --disks 12
"""

import argparse
import copy
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config

from e2e.chromium import Chromium, Tab, find_chromium
from e2e.cluster.apiserver import ApiServer
from tests import map_samples
from tests.kube.api import Resources
from tests.map_server import put, report, spindle_ui

ROOT: Final = Path(__file__).resolve().parents[1]
_NAME: Final = "large"
_TICKS: Final = 100  # of a second, in /proc
_DRAWN: Final = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))"


def main() -> None:
    """Fill an API server, open the map, change disks, print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--brokers", type=int, default=1000)
    options.add_argument("--disks", type=int, default=12)
    options.add_argument("--racks", type=int, default=5)
    options.add_argument("--updates", type=int, default=10)
    options.add_argument("--screenshot", type=Path)
    chosen = options.parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit("there is no Chromium on this machine")
    with ApiServer() as server, tempfile.TemporaryDirectory() as folder:
        server.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(ROOT / "crds"))
        with config.new_client_from_config(config_file=str(server.kubeconfig)) as api:
            resources = Resources(api, "default")
            brokers = list(map_samples.brokers(_NAME, chosen.brokers, chosen.disks, chosen.racks))
            _fill(api, resources, chosen, brokers)
            with (
                spindle_ui(server.kubeconfig) as (url, process),
                Chromium(program, Path(folder)) as chromium,
            ):
                _measure(chosen, chromium.tab(), url, (process.pid, chromium), (resources, brokers))


def _fill(
    api: client.ApiClient, resources: Resources, chosen: argparse.Namespace, brokers: list[Any]
) -> None:
    # A KafkaCluster may ask for 5,000 disks; the map does not know that bound.
    put(resources, map_samples.cluster(_NAME, chosen.brokers, min(chosen.disks, 5000 // chosen.brokers)))
    put(resources, map_samples.proposal(_NAME))
    core: Any = client.CoreV1Api(api)
    core.create_namespaced_config_map("default", map_samples.journal(_NAME))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: put(resources, each), brokers))


def _measure(
    chosen: argparse.Namespace,
    tab: Tab,
    url: str,
    measured: tuple[int, Chromium],
    objects: tuple[Resources, list[Any]],
) -> None:
    pid, chromium = measured
    cells = chosen.brokers * chosen.disks
    tab.resize(1600, 1000)
    begun, cpu = time.monotonic(), _cpu(pid)
    tab.open(url)
    tab.wait(f"document.querySelectorAll('.card .cell').length === {cells}", 120)
    tab.evaluate(_DRAWN)
    took = time.monotonic() - begun
    _tell(
        f"first picture of {cells} disks: {took:.2f} s after the address was opened",
        f"CPU time: command {_cpu(pid) - cpu:.2f} s, page {_page_seconds(tab):.2f} s",
    )
    if chosen.screenshot:
        tab.screenshot(chosen.screenshot)
    cpu, page = _cpu(pid), _page_seconds(tab)
    seconds = list(_updates(tab, *objects, chosen.updates))
    each_cpu, each_page = (_cpu(pid) - cpu) / len(seconds), (_page_seconds(tab) - page) / len(seconds)
    _tell(
        f"from the API server's answer to the picture: {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s",
        f"CPU time of an update: command {1000 * each_cpu:.0f} ms, page {1000 * each_page:.0f} ms",
    )
    _all_at_once(tab, pid, *objects)
    processes = chromium.call("SystemInfo.getProcessInfo")["processInfo"]
    pages = max(_memory(each["id"]) for each in processes if each["type"] == "renderer")
    _tell(f"memory: command {_memory(pid)} MiB, the page's process {pages} MiB")


def _updates(tab: Tab, resources: Resources, brokers: list[Any], count: int) -> Iterator[float]:
    """Seconds until a disk that fails is shown as failed, one after the other, all over the map."""
    for number in range(count):
        broker = copy.deepcopy(brokers[len(brokers) * number // count])
        disk = broker["status"]["disks"][-1]
        disk.update(state="Failed", reason="DiskFailed", message="A probe failed.")
        report(resources, broker)
        begun = time.monotonic()
        where = f'.card[data-broker="{broker["metadata"]["name"]}"] .cell[data-disk="{disk["name"]}"]'
        tab.wait(f"document.querySelector('{where}').dataset.state === 'Failed'")
        tab.evaluate(_DRAWN)
        yield time.monotonic() - begun


def _all_at_once(tab: Tab, pid: int, resources: Resources, brokers: list[Any]) -> None:
    """A hundred brokers change as fast as the API server takes it."""
    changed = [copy.deepcopy(each) for each in brokers[:100]]
    for each in changed:
        each["status"]["disks"][0].update(state="Draining", reason="DrainRequested")
    cpu, page = _cpu(pid), _page_seconds(tab)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda each: report(resources, each), changed))
    begun = time.monotonic()
    tab.wait(f"document.querySelectorAll('.cell[data-state=Draining]').length >= {len(changed)}")
    tab.evaluate(_DRAWN)
    _tell(
        f"{len(changed)} brokers at once: {time.monotonic() - begun:.2f} s after the last answer",
        f"CPU time: command {_cpu(pid) - cpu:.2f} s, page {_page_seconds(tab) - page:.2f} s",
    )


def _tell(*parts: str) -> None:
    sys.stdout.write("; ".join(parts) + "\n")
    sys.stdout.flush()


def _cpu(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int) -> int:
    """Resident MiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) >> 10


def _page_seconds(tab: Tab) -> float:
    """CPU seconds of the page's main thread in scripts, styles and layout."""
    found = {each["name"]: each["value"] for each in tab.call("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


if __name__ == "__main__":
    main()
