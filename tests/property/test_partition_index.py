"""The index of the partitions answers as a scan of all of them would."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.model.partition_faults import partition_faults
from spindle.model.restart_safety import RestartSafety
from spindle.model.view import Broker, KafkaView, LogDir, Partition

BROKERS = range(5)

some_brokers = st.lists(st.sampled_from(BROKERS), unique=True, max_size=4).map(tuple)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Partition, ...]:
    found = []
    for index in range(draw(st.integers(0, 6))):
        replicas = draw(some_brokers)
        isr = draw(st.one_of(st.permutations(replicas).map(tuple), some_brokers))
        within = st.lists(st.sampled_from(replicas), unique=True).map(tuple) if replicas else st.just(())
        adding, removing = draw(st.one_of(st.just(()), within)), draw(st.one_of(st.just(()), within))
        leader = draw(st.sampled_from((None, *isr)))
        found.append(Partition("t", index, leader, replicas, isr, adding=adding, removing=removing))
    return tuple(found)


@given(partitions())
def test_it_answers_as_a_scan_does(everything: tuple[Partition, ...]) -> None:
    index = KafkaView(partitions=everything).partition_index
    for broker in BROKERS:
        assert index.assigned.get(broker, []) == [p for p in everything if broker in p.replicas]
        assert index.arriving.get(broker, []) == [p for p in everything if broker in p.adding]
        assert index.lagging.get(broker, []) == [
            p for p in everything if broker in p.replicas and broker not in (*p.isr, *p.adding)
        ]
        in_isr = [p for p in everything if broker in p.isr]
        assert sorted(index.in_isr(broker), key=lambda p: p.index) == in_isr
    for partition in index.by_key.values():
        usual = partition.leader is not None and not partition.adding and not partition.removing
        assert partition.settled is (usual and sorted(partition.isr) == sorted(partition.replicas))


@given(partitions())
def test_faults_are_those_of_all_partitions(everything: tuple[Partition, ...]) -> None:
    found = partition_faults(KafkaView(partitions=everything, min_isr={"t": 2}))
    assert found is not None
    assert found.offline == [p.name for p in everything if p.leader is None]
    assert found.under_min_isr == [p.name for p in everything if len(p.isr) < min(2, p.recorded_rf)]


def test_a_view_with_other_brokers_shares_the_index() -> None:
    view = KafkaView(brokers={}, partitions=(Partition("t", 0, 1, (1, 2), (1, 2)),), min_isr={"t": 1})
    dirs = (LogDir("/d", replicas={("t", 0): 1}), LogDir("/e", error=56, replicas={("t", 1): 1}))
    other = view.with_brokers({i: Broker(i, None, fenced=False, log_dirs=dirs) for i in (1, 2)})
    assert other.partition_index is view.partition_index
    assert other.brokers is not None
    assert other.brokers[1].live == frozenset({("t", 0)})
    assert Broker(3, None).live is None
    assert RestartSafety(other).may_go_down(1).refusal is None
    assert RestartSafety(view).may_go_down(1).refusal is not None
