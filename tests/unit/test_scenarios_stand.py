"""Which cluster a scenario gets: the one that stands if it is as it was made, else another one."""

from typing import Any, cast

import pytest

from e2e.scenarios import stand
from e2e.scenarios.lab import Lab, LabError
from e2e.scenarios.stand import SHOWN, THREE, Kind, Stand


class Cluster:
    """A namespace with a KafkaCluster that is ready at once."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self.well = True

    def apply(self, manifest: dict[str, Any]) -> None:
        self.spec = dict(manifest["spec"])

    def until_ready(self, _: float) -> float:
        if not self.well:
            raise LabError
        return 0.0

    def cluster(self) -> dict[str, Any]:
        return {"spec": dict(self.spec or {})}

    def get(self, *_: str) -> dict[str, Any] | None:
        return None if self.spec is None else self.cluster()


@pytest.fixture
def stands(monkeypatch: pytest.MonkeyPatch) -> Stand:
    def opener(*_: Any) -> Lab:
        return cast("Lab", Cluster())

    def closer(lab: Lab) -> None:
        cast("Cluster", lab).spec = None

    monkeypatch.setattr(stand, "is_well", lambda lab: lab.well)
    return Stand(opener, closer)


def get(stands: Stand, kind: Kind) -> Cluster:
    return cast("Cluster", stands.get(kind))


def test_a_cluster_that_is_well_and_as_it_was_made_is_shared(stands: Stand) -> None:
    assert get(stands, SHOWN) is get(stands, SHOWN)


def test_another_kind_takes_its_place(stands: Stand) -> None:
    first = get(stands, SHOWN)

    assert get(stands, THREE) is not first
    assert first.spec is None, "there are disks for one at a time"


@pytest.mark.parametrize("left", ["not well", "another spec", "deleted"])
def test_what_was_not_left_as_it_was_is_made_anew(stands: Stand, left: str) -> None:
    first = get(stands, SHOWN)
    if left == "not well":
        first.well = False
    elif left == "another spec":
        first.spec = {**(first.spec or {}), "listeners": []}
    else:
        first.spec = None

    second = get(stands, SHOWN)

    assert second is not first
    assert second.spec == SHOWN.manifest()["spec"]


def test_one_that_did_not_become_ready_is_removed_too() -> None:
    made = Cluster()
    made.well = False
    closed: list[Lab] = []
    stands = Stand(lambda *_: cast("Lab", made), closed.append)

    with pytest.raises(LabError):
        stands.get(SHOWN)
    stands.close()
    stands.close()

    assert closed == [cast("Lab", made)]
