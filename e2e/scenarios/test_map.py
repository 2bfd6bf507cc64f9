"""A disk dies and is replaced, and the map shows each step in a real browser.

The folder SPINDLE_REPORTS keeps the pictures; those of the manual, docs/images/map*.png, come from there.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.chromium import Chromium, Tab, find_chromium
from e2e.map_picture import picture_large
from e2e.scenarios.disk_slot import Slot, choose, conclude, dies, replace, until_evacuated
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.timeline import Timeline
from tests.map_server import spindle_ui

pytestmark = pytest.mark.e2e

# Records each state that the page shows of a disk, with the time in seconds since the epoch.
_RECORD: Final = """{
  const cell = document.querySelector('.card[data-broker="%s"] .cell[data-disk="%s"]');
  window.shown = [];
  let last = cell.dataset.state;
  new MutationObserver(() => {
    const state = cell.dataset.state;
    if (state !== last) window.shown.push([state, Date.now() / 1000]);
    last = state;
  }).observe(cell, {attributes: true, attributeFilter: ["data-state"]});
}"""
_LATEST: Final = 2.0  # seconds after the status; alone on a machine it takes a tenth of one


@pytest.fixture
def tab(running: Lab, tmp_path: Path) -> Iterator[Tab]:
    """The map of the sample cluster."""
    program = find_chromium()
    if program is None:
        pytest.skip("this machine has no Chromium, and it cannot be installed with apt-get")
    kubeconfig = running.kubeconfig or Path(os.environ["KUBECONFIG"])
    with (
        spindle_ui(kubeconfig, "demo", "-n", running.namespace) as (url, _),
        Chromium(program, tmp_path) as chromium,
    ):
        made = chromium.tab()
        made.resize(1280, 640)
        made.open(url)
        made.wait("document.querySelector('.card .cell')", 60)
        yield made
        assert made.complaints() == []


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for pictures."""
    folder = Path(os.environ.get("SPINDLE_REPORTS", tmp_path)) / "map"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_the_map_shows_how_a_disk_dies_and_is_replaced(
    running: Lab, machine: Machine, spindle_image: str, tab: Tab, pictures: Path
) -> None:
    with (
        Timeline(running) as timeline,
        load(running, spindle_image, Topic("mapped", partitions=12), fill=4) as writing,
    ):
        slot = choose(running, writing)
        tab.evaluate(_RECORD % (slot.owner, slot.disk))
        died = dies(timeline, machine, slot)
        tab.wait("shown.length && ['Failed', 'Evacuating'].includes(shown[0][0])", 120)
        tab.wait("shown.some(each => each[0] === 'Evacuating')", 120)
        tab.screenshot(pictures / "map-evacuating.png")
        _open(tab, slot)
        tab.wait("document.getElementById('detail').innerText.includes('DiskFailed')", 60)
        tab.dark(on=True)
        tab.screenshot(pictures / "map-disk.png")
        tab.dark(on=False)
        tab.press("Escape")
        until_evacuated(timeline, died, slot)
        tab.wait("shown.at(-1)[0] === 'Evacuated'", 10)
        tab.screenshot(pictures / "map-evacuated.png")
        replace(timeline, machine, slot)
        tab.wait("shown.at(-1)[0] === 'Active'", 30)
        tab.screenshot(pictures / "map-replaced.png")
        conclude(writing, timeline, died)
        shown = [(str(state), float(at)) for state, at in tab.evaluate("shown")]
        _assert_in_time(timeline, slot, died, shown)
    print(f"the page showed {' → '.join(state for state, _ in shown)}; pictures: {pictures}")


def test_picture_of_a_large_cluster(pictures: Path) -> None:
    """Eighteen brokers are more than the testbed carries."""
    program = find_chromium()
    if program is None:
        pytest.skip("this machine has no Chromium, and it cannot be installed with apt-get")
    picture_large(program, pictures / "map.png")


def _open(tab: Tab, slot: Slot) -> None:
    cell = f"""document.querySelector('.card[data-broker="{slot.owner}"] .cell[data-disk="{slot.disk}"]')"""
    tab.evaluate(f"{cell}.click()")


def _assert_in_time(timeline: Timeline, slot: Slot, died: float, shown: list[tuple[str, float]]) -> None:
    """The page showed each state soon after the status had it. The timeline sees the status by a watch, too."""
    for state, at in shown:
        recorded = timeline.first("disk", f"^{state}", slot.subject, since=died)
        assert recorded is not None, f"the map showed {state}, and the status never had it"
        late = at - recorded
        print(f"{state}: {late:.2f} s after the status")
        assert late < _LATEST
