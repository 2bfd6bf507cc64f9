"""Spark's JVM dies: the run fails with a reason, and its outcome is told."""

import signal
from pathlib import Path
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


class Java:
    """A Java exception as Py4J shows it."""

    def __init__(self, text: str, cause: "Java | None" = None, error: Exception | None = None) -> None:
        self.text, self.cause, self.error = text, cause, error

    def toString(self) -> str:  # noqa: N802 - Java's
        return self.text

    def getCause(self) -> "Java | None":  # noqa: N802 - Java's
        if self.error is not None:
            raise self.error
        return self.cause


def circle() -> Java:
    made = Java("SparkException: a", Java("IOException: b"))
    assert made.cause is not None
    made.cause.cause = made
    return made


@pytest.mark.parametrize(
    ("thrown", "told"),
    [
        pytest.param(
            Java("SparkException: no scheduler", Java("KubernetesClientException: pods is forbidden.")),
            "Spark failed: SparkException: no scheduler; first cause: KubernetesClientException: pods is forbidden.",
            id="executors had been switched off a second before",
        ),
        pytest.param(
            Java("SparkException: a stage failed", Java("OutOfMemoryError: Java heap space")),
            "Spark failed: SparkException: a stage failed; first cause: OutOfMemoryError: Java heap space; give the pod more memory (spec.rebalance.engine.resources)",
            id="memory",
        ),
        pytest.param(
            Java("SparkException: ExecutorLostFailure (executor 4 exited) Reason: \n exit code 137"),
            "Spark failed: SparkException: ExecutorLostFailure (executor 4 exited) Reason: exit code 137; give the pod more memory (spec.rebalance.engine.resources)",
            id="several lines",
        ),
        pytest.param(
            circle(), "Spark failed: SparkException: a; first cause: IOException: b", id="causes in a circle"
        ),
        pytest.param(
            Java("SparkException: a", error=cast("Any", Py4JNetworkError)("gone")),
            "Spark failed: SparkException: a",
            id="the JVM ends meanwhile",
        ),
    ],
)
def test_what_spark_says_is_told_with_its_first_cause(
    thrown: Java, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = cast("Any", Py4JJavaError).__new__(Py4JJavaError)
    error.java_exception = thrown

    def learn_topic(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(learn, "learn_topic", learn_topic)
    made = engine()
    with pytest.raises(RunError) as ended:
        made.study(made._options.targets[0], {0: (0, 1)}, skewed())
    assert (ended.value.reason, str(ended.value)) == (ENGINE, told)


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
