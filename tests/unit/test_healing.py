"""What each bad disk needs: where replicas stand, where they can go, what may leave, what comes back, what is given up."""

import itertools
from dataclasses import replace

import pytest

from spindle.disks import acceptance
from spindle.disks.acceptance import Accepted, Loss, accept, digest, lost_with, resolve_losses
from spindle.disks.disk_slot import SlotContent, SlotObservation, classify_slot, unexpected_disk
from spindle.disks.remove_dir import may_remove_dir
from spindle.evacuation.drop_replicas import drop_replicas, may_drop_replica
from spindle.evacuation.evacuate import _unchained, evacuate
from spindle.evacuation.fence import may_fence, stalls_alone
from spindle.evacuation.restore_replicas import place, restore_replicas
from spindle.model.maintenance import disk_requests
from spindle.model.replica_index import ReplicaIndex
from spindle.model.requests import RestartRequest
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves.journal import DroppedReplica, Journal, Move
from spindle.moves.missing_replicas import meant
from spindle.reconcile.healing import restore_pending

T = "orders"


def log_dir(path: str, *held: int, error: int = 0, cordoned: bool = False, used: int = 0) -> LogDir:
    if error:
        return LogDir(path, error=error)
    replicas = {(T, p): 100 for p in held}
    return LogDir(path, 0, 10_000, 10_000 - used - 100 * len(held), cordoned, replicas)


def broker(i: int, *dirs: LogDir, fenced: bool = False, asked: bool = True) -> Broker:
    return Broker(i, f"rack{i % 3}", fenced, dirs if asked else None)


def part(
    index: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...] | None = None,
    elr: tuple[int, ...] = (),
    leader: int | None = -1,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Partition:
    isr = replicas if isr is None else isr
    head = (isr[0] if isr else None) if leader == -1 else leader
    return Partition(T, index, head, replicas, isr, elr, adding, removing)


def view(brokers: list[Broker], *partitions: Partition, min_isr: int = 2) -> KafkaView:
    return KafkaView(
        brokers={b.id: b for b in brokers}, partitions=partitions, min_isr={T: min_isr}, metadata_version=30
    )


def three(**of_zero: object) -> KafkaView:
    """Three brokers with two dirs each; both replicas of broker 0 stood on ``b``, which is dead."""
    return view(
        [
            broker(0, log_dir("a"), log_dir("b", error=56)),
            broker(1, log_dir("a", 0), log_dir("b", 1)),
            broker(2, log_dir("a", 0), log_dir("b", 1)),
        ],
        part(0, (0, 1, 2), (1, 2)),
        part(1, (1, 2, 0), (1, 2)),
    )


class TestStanding:
    def test_what_no_live_dir_shows_is_on_the_dead_one(self) -> None:
        replica_index = ReplicaIndex(three())
        assert replica_index.on(0, "b") == frozenset({(T, 0), (T, 1)})
        assert replica_index.on(0, "a") == frozenset()
        assert replica_index.on(1, "a") == frozenset({(T, 0)})

    def test_a_broker_that_cannot_be_asked_tells_nothing(self) -> None:
        replica_index = ReplicaIndex(view([broker(0, asked=False)], part(0, (0,))))
        assert replica_index.on(0, "a") is None
        assert replica_index.lost(0) is None
        assert not replica_index.holds(0, (T, 0))

    @pytest.mark.parametrize(
        "partly",
        [{"error": "the brokers went away meanwhile"}, {"partitions": None}, {"brokers": None}],
        ids=str,
    )
    def test_a_look_that_failed_half_way_permits_nothing(self, partly: dict[str, object]) -> None:
        replica_index = ReplicaIndex(replace(three(), **partly))  # type: ignore[arg-type]
        assert (replica_index.lost(0), replica_index.on(0, "b")) == (None, None)
        shrinking, leaving = (
            may_drop_replica(replica_index, 0, [(T, 0)]),
            may_remove_dir(replica_index, 0, "b"),
        )
        assert shrinking is not None
        assert shrinking.reason == "KafkaUnknown"
        assert leaving is not None
        assert leaving.reason == "LogDirsUnknown"
        assert (
            restore_replicas(
                replica_index.view, [DroppedReplica(T, 0, broker=0, bytes=1, before=(0, 1, 2))]
            ).moves
            == ()
        )

    def test_with_two_dead_dirs_a_lost_replica_counts_for_both(self) -> None:
        v = view([broker(0, log_dir("a"), log_dir("b", error=56), log_dir("c", error=56))], part(0, (0,), ()))
        assert ReplicaIndex(v).on(0, "b") == ReplicaIndex(v).on(0, "c") == frozenset({(T, 0)})

    def test_copies_are_those_in_sync_on_live_dirs_elsewhere(self) -> None:
        assert ReplicaIndex(three()).copies((T, 0), 0) == 2
        assert ReplicaIndex(three()).copies((T, 0), 1) == 1


class TestEvacuate:
    def test_with_three_brokers_nobody_else_can_take_a_replica(self) -> None:
        assert evacuate(three(), [(0, "b")]).moves == ()

    def test_with_six_each_goes_to_the_other_broker_of_its_rack(self) -> None:
        brokers = [
            broker(0, log_dir("a"), log_dir("b", error=56)),
            *(broker(i, log_dir("a", *([0] if i < 3 else []))) for i in range(1, 6)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (1, 2))), [(0, "b")])
        assert [(m.source, m.target, m.to_dir, m.reason) for m in found.moves] == [(0, 3, "a", "evacuate")]

    @pytest.mark.parametrize(
        ("planned", "made"),
        [
            ([(2, 1), (1, 5)], [(2, 5)]),
            ([(1, 5), (2, 1)], [(2, 5)]),
            ([(3, 2), (2, 1), (1, 5)], [(3, 5)]),
            ([(2, 1), (1, 2)], []),  # neither can start
            ([(2, 4), (1, 5)], [(2, 4), (1, 5)]),
            ([(2, 1), (1, 1)], [(2, 1), (1, 1)]),
        ],
    )
    def test_a_chain_is_one_move_to_its_end(
        self, planned: list[tuple[int, int]], made: list[tuple[int, int]]
    ) -> None:
        moves = [Move(T, 0, source=a, from_dir="a", target=b, to_dir=f"to-{b}", bytes=1) for a, b in planned]
        found = _unchained(moves)
        assert [(move.source, move.target) for move in found] == made
        assert all(move.to_dir == f"to-{move.target}" for move in found)

    def test_of_two_dead_replicas_the_one_out_of_sync_goes_first(self) -> None:
        """The other one is still in sync, for example on a disk that was swapped under its broker."""
        brokers = [
            broker(0, log_dir("a", 0), log_dir("b")),
            broker(1, log_dir("a"), log_dir("b", 0)),
            broker(2, log_dir("a"), log_dir("b", error=56)),
            *(broker(i, log_dir("a")) for i in range(3, 6)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (0, 1))), [(1, "b"), (2, "b")])
        assert found.moves[0].source == 2
        assert found.moves[0].target not in (0, 1, 2)

    @pytest.mark.parametrize(("bad", "moved"), [("b", 1), ("c", 1), ("a", 0)])
    def test_which_of_two_dead_dirs_holds_a_replica_nobody_can_tell(self, bad: str, moved: int) -> None:
        brokers = [
            broker(0, log_dir("a"), log_dir("b", error=56), log_dir("c", error=56)),
            *(broker(i, log_dir("a", *([0] if i < 3 else []))) for i in range(1, 6)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (1, 2))), [(0, bad)], avoid=[(0, "b"), (0, "c")])
        assert len(found.moves) == moved

    def test_a_silent_broker_holds_nothing_up_and_takes_nothing(self) -> None:
        brokers = [
            broker(0, log_dir("a"), log_dir("b", error=56)),
            *(broker(i, log_dir("a", *([0] if i < 3 else [])), asked=i != 3) for i in range(1, 7)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (1, 2))), [(0, "b")])
        assert [(m.source, m.target) for m in found.moves] == [(0, 6)]

    def test_fewest_copies_left_come_first(self) -> None:
        brokers = [
            broker(0, log_dir("a"), log_dir("b", error=56)),
            broker(1, log_dir("a", 0, 1)),
            broker(2, log_dir("a", 0, 1)),
            *(broker(i, log_dir("a")) for i in range(3, 6)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (1, 2)), part(1, (0, 1, 2), (2,))), [(0, "b")])
        assert [m.partition for m in found.moves] == [1, 0]

    def test_a_disk_that_works_is_emptied_onto_its_neighbours(self) -> None:
        v = view([broker(0, log_dir("a", 0), log_dir("b", 1))], part(0, (0,)), part(1, (0,)))
        found = evacuate(v, [], [(0, "b")])
        assert [(m.source, m.target, m.from_dir, m.to_dir, m.reason) for m in found.moves] == [
            (0, 0, "b", "a", "drain")
        ]

    @pytest.mark.parametrize(("others", "moved"), [(8_800, 1), (8_950, 0)])
    def test_files_that_are_no_replicas_take_room_as_well(self, others: int, moved: int) -> None:
        v = view([broker(0, log_dir("a", used=others), log_dir("b", 0))], part(0, (0,)))
        assert len(evacuate(v, [], [(0, "b")], incoming_limit=0.9).moves) == moved

    def test_what_kafka_has_not_noticed_yet_is_copied_from_others(self) -> None:
        v = view([broker(0, log_dir("a", 0), log_dir("b", 1))], part(0, (0,)), part(1, (0,)))
        assert evacuate(v, [(0, "b")]).moves == ()

    def test_a_lost_broker_is_emptied_as_a_whole(self) -> None:
        brokers = [
            broker(0, fenced=True, asked=False),
            *(broker(i, log_dir("a", *([0] if i < 3 else []))) for i in range(1, 6)),
        ]
        found = evacuate(view(brokers, part(0, (0, 1, 2), (1, 2))), [], [], [0])
        assert [(m.source, m.from_dir, m.target) for m in found.moves] == [(0, None, 3)]

    def test_what_is_not_known_is_said(self) -> None:
        assert evacuate(KafkaView(error="no answer"), [(0, "b")]).problem == "no answer"


class TestShrink:
    def test_all_of_a_disk_leaves_with_the_old_assignment_on_record(self) -> None:
        found = drop_replicas(ReplicaIndex(three()), 0, [(T, 0), (T, 1)], ["b"])
        assert found.refusal is None
        assert found.shrunk == (
            DroppedReplica(T, 0, 0, 100, (0, 1, 2)),
            DroppedReplica(T, 1, 0, 100, (1, 2, 0)),
        )

    @pytest.mark.parametrize(
        ("replicas", "isr", "why"),
        [
            pytest.param(
                (0, 1, 2),
                (1,),
                "InsufficientInSyncReplicas",
                id="one copy left: the hazard that was seen live",
            ),
            pytest.param((0,), (), "InsufficientInSyncReplicas", id="the only replica"),
            pytest.param((0, 1), (1,), "InsufficientInSyncReplicas", id="rf 2 with min isr 2"),
        ],
    )
    def test_it_does_not_leave_below_the_minimum(
        self, replicas: tuple[int, ...], isr: tuple[int, ...], why: str
    ) -> None:
        v = three()
        odd = view(list((v.brokers or {}).values()), part(0, replicas, isr), part(1, (1, 2, 0), (1, 2)))
        refusal = may_drop_replica(ReplicaIndex(odd), 0, [(T, 0), (T, 1)])
        assert refusal is not None
        assert (refusal.rule, refusal.reason) == (5, why)

    def test_a_broker_that_is_being_taken_down_does_not_count(self) -> None:
        assert may_drop_replica(ReplicaIndex(three()), 0, [(T, 0)], {0}) is None
        found = drop_replicas(ReplicaIndex(three()), 0, [(T, 0), (T, 1)], ["b"], down={2})
        assert not found.shrunk
        assert found.refusal is not None
        assert found.refusal.reason == "InsufficientInSyncReplicas"

    def test_one_that_cannot_leave_holds_all_of_the_disk(self) -> None:
        v = three()
        odd = view(list((v.brokers or {}).values()), part(0, (0,), ()), part(1, (1, 2, 0), (1, 2)))
        found = drop_replicas(ReplicaIndex(odd), 0, [(T, 0), (T, 1)], ["b"])
        assert not found.shrunk
        assert found.refusal is not None
        assert found.refusal.objects == ("orders-0",)

    def test_an_isr_member_on_a_dead_dir_does_not_count(self) -> None:
        brokers = [
            broker(0, log_dir("a"), log_dir("b", error=56)),
            broker(1, log_dir("a"), log_dir("b", error=56)),
            broker(2, log_dir("a", 0)),
        ]
        assert (
            may_drop_replica(ReplicaIndex(view(brokers, part(0, (0, 1, 2), (1, 2)))), 0, [(T, 0)]) is not None
        )

    def test_what_is_being_reassigned_waits(self) -> None:
        v = three()
        moving = view(list((v.brokers or {}).values()), part(0, (0, 1, 2), (1, 2), adding=(2,)))
        refusal = may_drop_replica(ReplicaIndex(moving), 0, [(T, 0)])
        assert refusal is not None
        assert refusal.reason == "ReassignmentInProgress"

    def test_without_a_way_back_nothing_leaves(self) -> None:
        full = log_dir("a", used=9_000)
        v = view(
            [broker(0, full, log_dir("b", error=56)), *list((three().brokers or {}).values())[1:]],
            *(three().partitions or ()),
        )
        found = drop_replicas(ReplicaIndex(v), 0, [(T, 0), (T, 1)], ["b"])
        assert found.refusal is not None
        assert (found.refusal.rule, found.refusal.reason) == (4, "InsufficientSpaceOnBroker")


class TestRegrow:
    SHRUNK = (DroppedReplica(T, 0, 0, 100, (0, 1, 2)), DroppedReplica(T, 1, 0, 100, (1, 2, 0)))

    def whole(self, *of_zero: LogDir, isr: tuple[int, ...] = (1, 2), elr: tuple[int, ...] = ()) -> KafkaView:
        return view(
            [broker(0, *of_zero), *list((three().brokers or {}).values())[1:]],
            part(0, (1, 2), isr, elr),
            part(1, (1, 2), isr, elr),
        )

    def test_each_comes_back_to_a_dir_of_its_own(self) -> None:
        found = restore_replicas(self.whole(log_dir("a"), log_dir("c")), self.SHRUNK)
        assert [(m.partition, m.source, m.target, m.to_dir) for m in found.moves] == [
            (0, None, 0, "a"),
            (1, None, 0, "c"),
        ]

    def test_not_while_a_dir_is_offline(self) -> None:
        found = restore_replicas(self.whole(log_dir("a"), log_dir("b", error=56)), self.SHRUNK)
        assert not found.moves
        assert found.refusals[0][1].reason == "RestartPending"

    def test_not_where_the_broker_may_still_lead(self) -> None:
        assert not restore_replicas(self.whole(log_dir("a"), elr=(0,)), self.SHRUNK).moves

    def test_not_above_the_incoming_limit(self) -> None:
        found = restore_replicas(self.whole(log_dir("a", used=8_950)), self.SHRUNK)
        assert not found.moves
        assert found.refusals[0][1].reason == "InsufficientSpaceToRestore"

    def test_what_is_back_already_is_not_moved_again(self) -> None:
        assert restore_replicas(three(), self.SHRUNK) == restore_replicas(three(), ())

    def test_the_largest_goes_to_the_emptiest(self) -> None:
        dirs = [log_dir("a", used=1_000), log_dir("b")]
        assert place(dirs, {(T, 0): 5_000, (T, 1): 100}) == {(T, 0): "b", (T, 1): "a"}
        assert place(dirs, {(T, 0): 9_500}) is None


class TestRetire:
    def test_a_dir_leaves_only_when_nothing_stands_there(self) -> None:
        assert may_remove_dir(ReplicaIndex(three()), 1, "b") is not None
        refusal = may_remove_dir(ReplicaIndex(three()), 0, "b")
        assert refusal is not None
        assert refusal.rule == 5
        assert may_remove_dir(ReplicaIndex(three()), 0, "b", given_up=[(T, 0), (T, 1)]) is None
        assert may_remove_dir(ReplicaIndex(three()), 0, "a") is None

    def test_not_while_something_is_on_its_way_there(self) -> None:
        assert may_remove_dir(ReplicaIndex(three()), 0, "a", owed=[(T, 1)]) is not None

    def test_not_while_the_broker_cannot_be_asked(self) -> None:
        refusal = may_remove_dir(ReplicaIndex(view([broker(0, asked=False)], part(0, (1,)))), 0, "b")
        assert refusal is not None
        assert refusal.reason == "LogDirsUnknown"


class TestFence:
    def hung(self, *partitions: Partition, asked: bool = False) -> ReplicaIndex:
        brokers = [
            broker(0, log_dir("a", 0), log_dir("b", 1), asked=asked),
            broker(1, log_dir("a", 0, 1)),
            broker(2, log_dir("a", 0, 1)),
        ]
        return ReplicaIndex(view(brokers, *partitions))

    def test_a_leader_that_does_not_answer_is_stopped(self) -> None:
        replica_index = self.hung(part(0, (0, 1, 2), (0, 1)), part(1, (1, 2, 0), (0, 1, 2), leader=0))
        assert may_fence(replica_index, 0, ["b"], frozenset()) is None

    def test_not_two_at_once(self) -> None:
        refusal = may_fence(self.hung(part(0, (0, 1, 2))), 0, ["b"], frozenset({2}))
        assert refusal is not None
        assert refusal.reason == "AnotherBrokerDown"

    def test_not_where_a_healthy_partition_would_fall_below_its_minimum(self) -> None:
        replica_index = self.hung(part(0, (1, 0, 2), (0, 1), leader=1), part(1, (0, 1, 2)))
        refusal = may_fence(replica_index, 0, ["b"], frozenset())
        assert refusal is not None
        assert refusal.objects == ("orders-0",)

    def test_not_while_nobody_can_say_what_depends_on_it(self) -> None:
        """It may be only the operator's own way to Kafka that is cut."""
        unknown = (KafkaView(error="no answer"), KafkaView(brokers={}, partitions=()))
        for replica_index, down in itertools.product(unknown, (frozenset(), frozenset({1}))):
            # Also where no broker runs that could tell: only a user can break that deadlock, and this entry says how.
            refusal = may_fence(ReplicaIndex(replica_index), 0, ["b"], down)
            assert refusal is not None
            assert refusal.reason == "KafkaUnknown"

    def test_not_where_it_is_the_only_one_in_sync(self) -> None:
        for asked in (True, False):
            replica_index = self.hung(
                part(0, (1, 0, 2), (1, 2), leader=1), part(1, (0, 1, 2), (0,)), asked=asked
            )
            refusal = may_fence(replica_index, 0, ["b"], frozenset())
            assert refusal is not None
            assert (refusal.reason, refusal.objects) == ("OnlyInSyncReplica", ("orders-1",))

    def test_what_stands_on_the_hung_disk_is_unwritable_already(self) -> None:
        replica_index = self.hung(part(0, (0, 1, 2)), part(1, (0, 1, 2), (0, 1)), asked=True)
        assert may_fence(replica_index, 0, ["b"], frozenset()) is None

    @pytest.mark.parametrize(
        ("stalled", "neighbours", "lasting", "alone"),
        [
            pytest.param([(0, "a")], [0], 0, True, id="one"),
            pytest.param([(0, "a"), (1, "a")], [0], 0, True, id="two-nodes"),
            pytest.param([(0, "a"), (0, "b")], [0], 0, False, id="all-of-a-broker"),
            pytest.param([(0, "a"), (1, "a")], [0, 1], 0, False, id="a-neighbour-on-the-node"),
            pytest.param([(0, "a"), (1, "a"), (2, "a")], [0], 59, False, id="many-brokers"),
            pytest.param([(0, "a"), (0, "b")], [0], 60, True, id="lasting"),
            pytest.param([(0, "a"), (1, "a"), (2, "a")], [0], 6000, False, id="many-brokers-lasting"),
        ],
    )
    def test_where_many_stall_it_is_the_machine(
        self, stalled: list[tuple[int, str]], neighbours: list[int], lasting: float, alone: bool
    ) -> None:
        refusal = stalls_alone(0, stalled, neighbours, 2, lasting)
        assert (refusal is None) is alone
        if refusal is not None:
            assert (refusal.rule, refusal.reason, len(refusal.objects)) == (
                9,
                "CorrelatedDiskStalls",
                len(stalled),
            )


class TestReplace:
    @pytest.mark.parametrize(
        ("seen", "slot"),
        [
            (SlotObservation("blank", well=True, fs_uuid="new"), SlotContent.NEW),
            (SlotObservation("blank", well=True, fs_uuid="old"), SlotContent.OLD),
            (SlotObservation("ours", well=True, fs_uuid="old"), SlotContent.OLD),
            (SlotObservation("foreign", well=True, fs_uuid="new"), SlotContent.FOREIGN),
            (SlotObservation("unknown", well=False), SlotContent.EMPTY),
            (SlotObservation("unknown", well=True), SlotContent.UNKNOWN),
            (SlotObservation(None, well=False), SlotContent.UNKNOWN),
            (SlotObservation(None, well=False, pv_uid="another"), SlotContent.NEW),
            (SlotObservation("blank", well=True), SlotContent.NEW),
        ],
    )
    def test_what_is_in_the_slot(self, seen: SlotObservation, slot: SlotContent) -> None:
        assert classify_slot(seen, "old", "pv") is slot

    def test_the_wrong_disk_is_named(self) -> None:
        assert unexpected_disk(0, "disk1", SlotContent.NEW, "") is None
        for slot in (SlotContent.OLD, SlotContent.FOREIGN):
            refusal = unexpected_disk(0, "disk1", slot, "another cluster's")
            assert refusal is not None
            assert refusal.rule == 7


def test_a_partition_that_was_shrunk_twice_is_meant_to_be_as_large_as_at_first() -> None:
    first = DroppedReplica("p", 0, broker=1, bytes=1, before=(0, 1, 2, 3))
    then = DroppedReplica("p", 0, broker=3, bytes=1, before=(0, 2, 3))
    assert (
        meant(Journal(dropped=(first, then)), {})
        == meant(Journal(dropped=(then, first)), {})
        == {("p", 0): (0, 1, 2, 3)}
    )


@pytest.mark.parametrize(
    ("reason", "shrunk_for", "waits"),
    [
        ("SpecChanged", "", True),
        ("RestartWithoutDisk", "", False),
        ("DiskReturned", "", False),
        ("DisksAdded", "", True),
        ("DisksAdded", "shed", False),
        ("SpecChanged", "shed", True),
    ],
)
def test_what_left_comes_back_before_a_restart_for_another_reason_than_a_disk(
    reason: str, shrunk_for: str, waits: bool
) -> None:
    journal = Journal(
        dropped=(DroppedReplica("p", 0, broker=1, bytes=1, before=(0, 1, 2), reason=shrunk_for),)
    )
    refused = restore_pending(journal, {}, {0: RestartRequest(reason, ""), 9000: RestartRequest(reason, "")})
    assert {node: refusal.objects for node, refusal in refused.items()} == ({0: ("p-0",)} if waits else {})
    assert restore_pending(None, {}, {0: RestartRequest(reason, "")}) == {}


class TestAcceptance:
    def test_the_text_names_the_directory_and_the_partitions(self) -> None:
        loss = Loss(0, "disk1", "D" * 22, frozenset({(T, 0), (T, 1)}))
        assert loss.text == f"{'D' * 22}:{digest([(T, 1), (T, 0)])}"
        assert digest([(T, 0)]) != digest([(T, 1)])

    def test_lost_is_what_nobody_else_may_hold(self) -> None:
        brokers = [
            broker(0, log_dir("b", error=56)),
            broker(1, log_dir("a", 0, 1)),
            broker(2, asked=False, fenced=True),
        ]
        replica_index = ReplicaIndex(
            view(
                brokers,
                part(0, (0, 1), ()),
                part(1, (0, 1), (1,)),
                part(2, (0,), (0,), leader=None),
                part(3, (0, 2), (), (2,)),
            )
        )
        assert lost_with(replica_index, 0, "b") == frozenset({(T, 0), (T, 2)})

    def test_a_survivor_is_elected_and_what_has_none_restarts_empty(self) -> None:
        brokers = [broker(0, log_dir("b", error=56)), broker(1, log_dir("a", 0)), broker(2, asked=False)]
        replica_index = ReplicaIndex(
            view(brokers, part(0, (0, 1), ()), part(1, (0,), ()), part(2, (0, 2), ()))
        )
        loss = Loss(0, "disk1", "D", frozenset({(T, 0), (T, 1), (T, 2)}))
        found = resolve_losses(replica_index, [loss], {"D": Accepted(loss.text, loss.partitions)})
        assert found.elect == {(T, 0)}
        assert found.empty == {(0, (T, 1))}
        assert [r.objects for _, r in found.refusals] == [("orders-2",)]

    def test_a_replica_that_is_being_made_is_no_survivor(self) -> None:
        """Kafka elects the first that it can: an empty one before the survivor would have that one cut off."""
        brokers = [broker(0, log_dir("b", error=56)), broker(1, log_dir("a", 0)), broker(2, log_dir("a", 0))]
        key = (T, 0)
        moving = part(0, (1, 2, 0), (), (0,), adding=(1,), removing=(0,))
        loss = Loss(0, "disk1", "D", frozenset({key}))
        given = {"D": Accepted(loss.text, loss.partitions)}
        found = resolve_losses(ReplicaIndex(view(brokers, moving)), [loss], given)
        assert found.elect == frozenset()
        assert found.reorder == {key: (2, 0, 1)}
        ordered = part(0, (2, 0, 1), (), (0,), adding=(1,), removing=(0,))
        found = resolve_losses(ReplicaIndex(view(brokers, ordered)), [loss], given)
        assert found.elect == {key}
        assert not found.reorder

    def test_of_several_survivors_the_one_with_the_most_data_leads(self) -> None:
        """They left the ISR one after the other: the last one to leave has what was acknowledged in between."""
        longer = LogDir("a", 0, 10_000, 9_000, False, {(T, 0): 200})
        brokers = [broker(0, log_dir("b", error=56)), broker(1, log_dir("a", 0)), broker(2, longer)]
        loss = Loss(0, "disk1", "D", frozenset({(T, 0)}))
        given = {"D": Accepted(loss.text, loss.partitions)}
        found = resolve_losses(ReplicaIndex(view(brokers, part(0, (0, 1, 2), ()))), [loss], given)
        assert (found.elect, found.reorder) == (frozenset(), {(T, 0): (2, 0, 1)})
        found = resolve_losses(ReplicaIndex(view(brokers, part(0, (2, 0, 1), ()))), [loss], given)
        assert (found.elect, found.reorder) == (frozenset({(T, 0)}), {})

    def test_a_replica_that_is_being_made_is_not_waited_for_where_another_survived(self) -> None:
        brokers = [broker(0, log_dir("b", error=56)), broker(1, asked=False), broker(2, log_dir("a", 0))]
        loss = Loss(0, "disk1", "D", frozenset({(T, 0)}))
        given = {"D": Accepted(loss.text, loss.partitions)}
        moving = part(0, (2, 1, 0), (), (0,), adding=(1,), removing=(0,))
        assert resolve_losses(ReplicaIndex(view(brokers, moving)), [loss], given).elect == {(T, 0)}
        alone = part(0, (1, 0), (), (0,), adding=(1,), removing=(0,))
        found = resolve_losses(ReplicaIndex(view(brokers, alone)), [loss], given)
        assert not found.elect
        assert [refusal.reason for _, refusal in found.refusals] == ["SurvivorsUnavailable"]

    def test_what_is_lost_on_two_disks_needs_both_names(self) -> None:
        brokers = [broker(i, log_dir("b", error=56)) for i in (0, 1)]
        replica_index = ReplicaIndex(view(brokers, part(0, (0, 1), (), (0, 1))))
        losses = [Loss(i, "disk1", f"D{i}", frozenset({(T, 0)})) for i in (0, 1)]
        one = resolve_losses(replica_index, losses, {"D0": Accepted("", frozenset({(T, 0)}))})
        assert not one.empty
        assert one.refusals
        both = resolve_losses(
            replica_index, losses, {f"D{i}": Accepted("", frozenset({(T, 0)})) for i in (0, 1)}
        )
        assert both.empty == {(0, (T, 0)), (1, (T, 0))}

    def test_of_two_disks_of_a_broker_both_are_named(self) -> None:
        """Which of them a replica stands on nobody can tell: one may only have lost its cable."""
        replica_index = ReplicaIndex(
            view([broker(0, log_dir("a", error=56), log_dir("b", error=56))], part(0, (0,), ()), min_isr=1)
        )
        losses = [Loss(0, f"disk{i}", f"D{i}", frozenset({(T, 0)})) for i in (0, 1)]
        one = resolve_losses(replica_index, losses, {"D0": Accepted("", frozenset({(T, 0)}))})
        assert not one.empty
        assert not one.elect
        ((loss, refusal),) = one.refusals
        assert (loss.disk, refusal.reason) == ("disk0", "OtherDiskMayHoldReplica")
        assert losses[1].text in refusal.unblocked_by
        both = resolve_losses(
            replica_index, losses, {f"D{i}": Accepted("", frozenset({(T, 0)})) for i in (0, 1)}
        )
        assert both.empty == {(0, (T, 0))}

    def test_an_acceptance_does_not_outlive_its_loss(self) -> None:
        loss = Loss(0, "disk1", "D", frozenset({(T, 0)}))
        taken = accept(loss.text, loss, None)
        assert taken == Accepted(loss.text, loss.partitions)
        over = accept(loss.text, None, taken)
        assert over is not None
        assert over.done
        # The same partitions are lost on the same disk once more: the old words don't count.
        again = accept(loss.text, loss, over)
        assert again is not None
        assert again.done
        assert accept(None, loss, over) is None
        assert accept("another:0123456789abcdef", loss, None) is None

    def test_an_acceptance_is_not_used_up_by_a_moment_in_which_no_loss_is_seen(self) -> None:
        loss = Loss(0, "disk1", "D", frozenset({(T, 0)}))
        taken = accept(loss.text, loss, None)
        blink = accept(loss.text, None, taken, leaderless=[(T, 0), (T, 5)])
        assert blink == taken
        served = accept(loss.text, None, taken, leaderless=[(T, 5)])
        assert served is not None
        assert served.done

    def test_more_lost_than_was_named_is_not_given_up(self) -> None:
        named = Loss(0, "disk1", "D", frozenset({(T, 0)}))
        more = Loss(0, "disk1", "D", frozenset({(T, 0), (T, 1)}))
        replica_index = ReplicaIndex(
            view([broker(0, log_dir("b", error=56))], part(0, (0,), ()), part(1, (0,), ()))
        )
        assert resolve_losses(replica_index, [more], {"D": Accepted(named.text, named.partitions)}).empty == {
            (0, (T, 0))
        }
        assert accept(named.text, more, None) is None

    def test_it_is_written_down_and_read_again(self) -> None:
        there = {"disk1": Accepted("D:0", frozenset({(T, 0)}), done=True)}
        assert acceptance.parse(acceptance.render(there)) == there
        assert acceptance.parse("nonsense") == {}
        assert acceptance.parse(None) == {}


def test_requests_are_read_by_disk() -> None:
    found = disk_requests(
        {
            "spec": {
                "maintenance": {"disks": [{"name": "disk0", "desiredState": "Cordoned"}]},
                "acceptDataLoss": {"disks": [{"name": "disk1", "token": "x"}]},
            }
        }
    )
    assert found["disk0"].cordoned
    assert found["disk1"].accept_loss == "x"
    assert disk_requests({"spec": {}}) == {}
