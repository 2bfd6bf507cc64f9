import pytest

from spindle.disks.rules import Cleared, may_clear, may_format, may_format_voter
from spindle.model.view import Broker, KafkaView, LogDir, Partition

T0 = ("t", 0)


def view(*partitions: Partition, brokers: dict[int, Broker] | None = None) -> KafkaView:
    if brokers is None:
        brokers = {
            broker: Broker(
                broker,
                rack=None,
                fenced=False,
                log_dirs=(
                    LogDir(
                        "/a", replicas={(p.topic, p.index): 1 for p in partitions if broker in p.replicas}
                    ),
                ),
            )
            for broker in range(3)
        }
    return KafkaView(brokers=brokers, partitions=partitions)


def partition(
    isr: tuple[int, ...], elr: tuple[int, ...] | None = (), replicas: tuple[int, ...] = (0, 1)
) -> Partition:
    return Partition(topic="t", index=0, leader=isr[0] if isr else None, replicas=replicas, isr=isr, elr=elr)


def test_another_replica_in_sync_on_a_live_dir_suffices() -> None:
    assert may_format(view(partition((1,))), 0, {T0}) is None
    assert may_format(view(partition((1,))), 0, None) is None


def test_one_that_is_only_eligible_suffices_while_another_is_in_sync_and_leads() -> None:
    """With as many replicas as min.insync.replicas it stays eligible until it starts, and a blank disk never starts as one."""
    for replicas in ((0, 1), (1, 2)):
        assert may_format(view(partition((1,), elr=(0,), replicas=replicas)), 0, {T0}) is None
    away = view(partition((1,), elr=(0,)), brokers={})
    assert may_format(away, 0, {T0}) is not None


def test_replica_that_left_suffices() -> None:
    assert may_format(view(partition((1,), replicas=(1, 2))), 0, {T0}) is None


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(partition(()), id="nobody-in-sync"),
        pytest.param(partition((0,)), id="last-in-isr"),
        pytest.param(partition((0, 1)), id="in-isr-beside-another"),
        pytest.param(partition((), elr=(0,)), id="in-elr-and-nobody-in-sync"),
        pytest.param(partition((), elr=(0, 1)), id="in-elr-beside-another"),
        pytest.param(partition((), elr=(0,), replicas=(1, 2)), id="in-elr-without-being-a-replica"),
        pytest.param(
            Partition("t", 0, leader=None, replicas=(0, 1), isr=(1,), elr=(0,)), id="in-elr-and-nobody-leads"
        ),
    ],
)
def test_partition_that_this_broker_could_lead_empty_is_refused(shown: Partition) -> None:
    for on_disk in ({T0}, None):
        refusal = may_format(view(shown), 0, on_disk)
        assert refusal is not None
        assert (refusal.rule, refusal.reason, refusal.objects) == (1, "LastReplicaAtRisk", ("t-0",))
        assert "t-0" in refusal.message


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(None, id="not-registered"),
        pytest.param(
            Broker(1, rack=None, fenced=True, log_dirs=(LogDir("/a", replicas={T0: 1}),)), id="fenced"
        ),
        pytest.param(Broker(1, rack=None, fenced=False, log_dirs=None), id="can-not-be-asked"),
        pytest.param(Broker(1, rack=None, fenced=False, log_dirs=()), id="does-not-show-it"),
        pytest.param(
            Broker(1, rack=None, fenced=False, log_dirs=(LogDir("/a", error=56, replicas={T0: 1}),)),
            id="offline-dir",
        ),
    ],
)
def test_other_replica_must_be_seen_on_a_live_dir(other: Broker | None) -> None:
    shown = view(partition((1,)), brokers={} if other is None else {1: other})
    assert may_format(shown, 0, {T0}) is not None


def test_unknown_permits_nothing() -> None:
    safe = view(partition((1,)))
    for unknown in (
        KafkaView(error="no broker answers"),
        KafkaView(brokers=safe.brokers),
        KafkaView(partitions=safe.partitions),
        view(partition((1,), elr=None)),
    ):
        refusal = may_format(unknown, 0, {T0})
        assert refusal is not None
        assert refusal.rule == 1


def test_what_never_held_anything_needs_no_kafka() -> None:
    assert may_format(KafkaView(error="not born yet"), 0, ()) is None


def test_partitions_of_other_disks_do_not_matter() -> None:
    assert may_format(view(partition((0,))), 0, {("u", 3)}) is None


def test_many_partitions_are_counted_and_all_listed() -> None:
    many = [Partition("t", index, 0, (0, 1), (0,), elr=()) for index in range(200)]
    refusal = may_format(view(*many), 0, None)
    assert refusal is not None
    assert len(refusal.objects) == 200
    assert "200 partitions" in refusal.message
    assert len(refusal.message) < 400


RECORDED = [Cleared("d", "pv", "f"), Cleared("e", "pv2", "g")]


@pytest.mark.parametrize(
    ("directory", "pv", "fs", "allowed"),
    [
        pytest.param("new", "pv3", "h", True, id="new"),
        pytest.param("d", "pv", "f", True, id="the-same-again"),
        pytest.param("d", "pv", "other", False, id="another-file-system"),
        pytest.param("d", "pv3", "f", False, id="another-volume"),
        pytest.param("d", "pv", None, False, id="file-system-without-uuid"),
    ],
)
def test_one_directory_id_for_one_file_system(directory: str, pv: str, fs: str | None, allowed: bool) -> None:
    for refusal in (may_clear(directory, pv, fs, RECORDED), may_format_voter(directory, pv, fs, RECORDED)):
        assert (refusal is None) is allowed


def test_voter_that_has_run_is_not_born_again() -> None:
    refusal = may_format_voter("d", "pv", "f", RECORDED, seen_running=True)
    assert refusal is not None
    assert refusal.rule == 13
