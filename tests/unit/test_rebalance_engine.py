"""Spark's JVM dies: the run fails with a reason, and its outcome is told."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from spindle_rebalance import learn, main, options, outcome
from spindle_rebalance.errors import ENGINE, RunError
from tests.unit.balance_samples import skewed

TOLD = ["run", "--cluster-namespace=ns", "--cluster=demo", "--bootstrap=h:1", "--tls=/none"]


class Dead:
    """A session whose JVM is no more."""

    def stop(self) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")


def engine() -> main.Engine:
    made = main.Engine(options.parse(TOLD))
    made._session = Dead()
    return made


@pytest.mark.parametrize(
    "error", [cast("Any", Py4JNetworkError)("Answer from Java side is empty"), ConnectionResetError("reset")]
)
def test_a_jvm_that_died_is_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def learn_topic(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(learn, "learn_topic", learn_topic)
    made = engine()
    with pytest.raises(RunError, match="more memory") as ended:
        made.study(made._options.targets[0], {0: (0, 1)}, skewed())
    assert ended.value.reason == ENGINE


def java(text: str, cause: Any = None) -> Any:
    """A Java exception as Py4J shows it."""
    return SimpleNamespace(toString=lambda: text, getCause=lambda: cause)


def test_what_spark_was_refused_is_named_and_not_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen where executors had been switched off a second before: the job may not create pods any more."""
    refused = java("KubernetesClientException: pods is forbidden.\nat io.fabric8")
    error = cast("Any", Py4JJavaError).__new__(Py4JJavaError)
    error.java_exception = java("SparkException: External scheduler cannot be instantiated", refused)

    def learn_topic(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(learn, "learn_topic", learn_topic)
    made = engine()
    with pytest.raises(RunError) as ended:
        made.study(made._options.targets[0], {0: (0, 1)}, skewed())
    assert (ended.value.reason, str(ended.value)) == (
        ENGINE,
        "Spark failed: KubernetesClientException: pods is forbidden.",
    )


def test_the_outcome_is_told_although_spark_cannot_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    dead = engine()
    monkeypatch.setattr(main, "Engine", lambda _: dead)
    # The log and the signals are those of the tests.
    monkeypatch.setattr("spindle_shared.logs.set_up", lambda **_: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(outcome, "tell", lambda result, _: told.append(result))

    assert main.run([*TOLD, f"--replay={tmp_path}"]) == 1
    assert [result.reason for result in told] == ["RecordUnreadable"]
