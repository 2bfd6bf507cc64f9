"""A tenant's Kafka that lies, floods or stalls costs the operator one look, and the others nothing."""

import asyncio
from pathlib import Path

import pytest

from spindle_operator import kafka_client as look_module
from spindle_operator.kafka_executor import KafkaExecutor
from tests.security.false_broker import FLOODS, LIES, STALLS, false_broker

pytestmark = pytest.mark.kafka

TIME_OUT = 10.0  # seconds for one answer; a look may take `look` times as long


@pytest.mark.parametrize(
    ("how", "look", "pause", "said"),
    [
        pytest.param(LIES, 10, 0.0, "repeat endlessly", id="lies"),
        pytest.param(FLOODS, 10, 0.0, "too many to manage", id="floods"),
        # Each answer comes well before its time-out, also on a loaded machine; all of them together take too long.
        pytest.param(STALLS, 1, 0.4, "responds too slowly", id="stalls"),
    ],
)
async def test_a_look_at_a_false_kafka_ends_and_says_why(
    how: str, look: int, pause: float, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "_MOST_PARTITIONS", 20_000, raising=False)
    monkeypatch.setattr(look_module, "_LOOK", look, raising=False)
    async with false_broker(how, tmp_path, pause) as (broker, access):
        gate = KafkaExecutor("tenant/demo", TIME_OUT, broker.port)
        view, _ = await gate.look(access)
        assert said in (view.error or "")
        assert view.partitions is None
        # Nothing goes on behind the gate's back: its thread is free, and nobody asks any more.
        pages = broker.pages
        await asyncio.sleep(2)
        assert broker.pages == pages
        assert gate._busy is None or gate._busy.done()
        await gate.shutdown()
