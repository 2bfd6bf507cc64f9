"""A KafkaCluster with ``disks.all`` that is deleted at any moment, by an operator that dies and reads parts of lists, leaves no volume reserved but those that somebody keeps."""

from contextlib import suppress
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model.checked import Checked
from tests.model.store import ConflictError
from tests.unit.test_all_disks import world_of
from tests.unit.test_healing_plan import delete
from tests.unit.test_reserved_volumes import keep, reserved

_VOLUMES = [f"node{node}-disk{disk}" for node, number in ((1, 2), (2, 1), (3, 3)) for disk in range(number)]


@dataclass(frozen=True)
class Pass:
    """A pass of the operator.

    Attributes:
        death: after how many actions it dies.
        hidden: volumes that its list lacks.
        blind: whether it cannot list volumes at all.
        still: whether nothing else happens before the next pass.
    """

    death: int | None
    hidden: frozenset[str]
    blind: bool
    still: bool

    def of(self, world: Checked) -> None:
        """Carry it out."""
        world.unknown = frozenset({"persistentvolumes"} if self.blind else ())
        keys = [("PersistentVolume", name) for name in self.hidden]
        kept = [world.objects.pop(key) for key in keys if key in world.objects]  # some went with their claims
        with suppress(ConflictError, KeyError):  # it had not seen what it wanted to change
            world.reconcile(stop_after=self.death)
        for volume in kept:
            world.put(volume)
        world.unknown = frozenset()
        if not self.still:
            world.breathe()


passes = st.lists(
    st.builds(
        Pass,
        st.one_of(st.none(), st.integers(0, 8)),
        st.frozensets(st.sampled_from(_VOLUMES), max_size=2),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(before=passes, after=passes, held=st.sets(st.sampled_from(_VOLUMES), max_size=2), claims=st.booleans())
def test_a_deletion_leaves_nothing_reserved(
    before: list[Pass], after: list[Pass], held: set[str], claims: bool
) -> None:
    world = world_of(2, 1, 3)
    for each in before:
        each.of(world)
    there = {c["spec"].get("volumeName") for c in world.all("PersistentVolumeClaim")}
    kept = {}
    for name in sorted(held - there):
        reference = world.get("PersistentVolume", name)["spec"].get("claimRef") or {}
        kept[name] = reference.get("name", "data-disk0-demo-7")
        keep(world, name, kept[name])
    world.cluster["spec"]["deleteClaims"] = claims
    world.cluster["metadata"]["deletionTimestamp"] = "now"
    for each in after:
        each.of(world)
    delete(world)
    assert reserved(world) == kept
    assert world.destroyed == [] or claims
