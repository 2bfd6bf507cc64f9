"""A cluster without free space: producers of the affected topics are blocked, others continue, and every setting is restored."""

import pytest

from e2e.scenarios.disk_slot import conclude, slots
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Stand, until_well
from e2e.scenarios.test_fill_one import small
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

STOPPING = small(3, lastResortActions={"blockProducers": True})


def test_a_full_cluster_stops_producers_and_puts_all_back(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(STOPPING)
    everywhere = Topic("everywhere", partitions=6, config=("max.message.bytes=777777",))
    apart = Topic("apart", partitions=1, replicas=1, min_isr=1)
    with Timeline(lab) as timeline, load(lab, spindle_image, everywhere, apart, fill=60) as running:
        before = running.configs()
        assert before["everywhere"]["max.message.bytes"] == "777777"
        home = next((r.broker, r.disk) for r in running.placement() if r.topic == apart.name)
        crowded = [slot for key, slot in slots(lab).items() if key[0] != home[0]]
        began = timeline.mark("all disks but those of one broker are filled up to 97 %")
        for slot in crowded:
            machine.disk("fill", slot.volume, 97)
        timeline.until("waiting", "ProducersBlocked", since=began, seconds=120)
        lab.until("producers are blocked", lambda: "everywhere-0" in running.refused(), 60)
        print("what a producer gets:", running.refused())
        assert all("MessageSizeTooLarge" in error for error in running.refused().values())
        assert running.configs()["everywhere"]["max.message.bytes"] == "100"
        assert not [name for name in running.refused() if name.startswith(apart.name)]
        assert not [name for name in running.silent() if name.startswith(apart.name)]
        assert lab.condition("DiskPressure")["reason"] == "BlockProducers"
        freed = timeline.mark("space is freed")
        for slot in crowded:
            machine.disk("fill", slot.volume, 1)
        lab.until("every setting is as before", lambda: running.configs() == before, 240)
        timeline.mark("every setting is as before")
        until_well(lab)
        running.until_more(200, 90)
        lab.until(
            "every replica is back",
            lambda: all(
                len(replicas) == 3
                for name, (_, _, replicas) in running.partitions().items()
                if "every" in name
            ),
            240,
        )
        report = conclude(running, timeline, freed)
        assert report.partitions["apart-0"]["acked"] > 0
