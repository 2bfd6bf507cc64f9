from pathlib import Path

from spindle.balance import propose
from spindle_rebalance import errors


def test_every_way_to_end_is_in_the_manual() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/rebalance-job.md").read_text()
    words = {
        value
        for module in (errors, propose)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    assert len(words) > 10
    assert sorted(word for word in words if f"`{word}`" not in page) == []
