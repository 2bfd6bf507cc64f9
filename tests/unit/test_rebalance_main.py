"""The command as it is started: exit codes, and a log of one line per step."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from spindle_rebalance import look
from tests.unit.balance_samples import skewed

TOLD = ("run", "--cluster-namespace=ns", "--cluster=demo", "--bootstrap=h:1", "--tls=/none")


def run(*more: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "spindle_rebalance.main", *TOLD, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr
    return done.returncode, [json.loads(line) for line in done.stderr.splitlines()]


def test_a_record_is_planned_from(tmp_path: Path) -> None:
    look.write(tmp_path / "ns.demo", skewed())
    code, lines = run(f"--replay={tmp_path}", f"--report={tmp_path}")
    assert code == 0, lines
    steps = {line["step"]: line for line in lines if "step" in line}
    assert list(steps) == ["look", "plan"]
    assert steps["look"]["partitions"] == 12
    assert steps["plan"]["moves"] == 15
    assert all(line["seconds"] >= 0 for line in steps.values())
    assert "Proposed" in lines[-1]["event"]
    assert (tmp_path / "ns.demo.html").is_file()


def test_a_record_that_is_not_there_fails_with_the_reason(tmp_path: Path) -> None:
    code, lines = run(f"--replay={tmp_path}")
    assert code == 1
    assert "RecordUnreadable" in lines[-1]["event"]
    assert str(tmp_path) in lines[-1]["event"]


def test_only_spark_starts_executors() -> None:
    command = [sys.executable, "-m", "spindle_rebalance.main", "executor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "only Spark starts this" in done.stderr
