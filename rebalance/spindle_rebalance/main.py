"""``spindle-rebalance``: one run, reported in its log and, for the operator, in its termination message.

Exit code 0: every cluster was planned (whether or not there is anything to do); 1: a cluster could not be planned; 2:
invalid arguments.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from spindle.balance.picture import Picture
from spindle_rebalance import executor, options, outcome
from spindle_rebalance.errors import ENGINE, INTERRUPTED, ROLLUP, SAMPLES, UNEXPECTED, RunError
from spindle_rebalance.findings import Findings
from spindle_rebalance.kube import Kube
from spindle_rebalance.options import Options, Target
from spindle_rebalance.outcome import Outcome, Tail
from spindle_rebalance.run import Ranges, Run, Spark
from spindle_rebalance.steps import QUIET, step
from spindle_shared import logs

log = logging.getLogger(__name__)

_FULL: Final = 1.0  # level to forecast: a full disk
_MORE_MEMORY: Final = "give the pod more memory (spec.rebalance.engine.resources)"
_OUT_OF_MEMORY: Final = ("OutOfMemory", "ExecutorLostFailure", "exit code 137")
_MOST_CAUSES: Final = 20  # of a Java exception; they may be a circle
_LONGEST_TEXT: Final = 500
_RECENT_MS: Final = 86_400_000  # replica growth is measured over the last day


def main() -> None:
    """Entry point."""
    if sys.argv[1:] == ["executor"]:
        executor.run()
    code = run(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    # Threads that still wait for a broker's response must not delay the exit.
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Parse the arguments, run, and report. Returns the exit code."""
    chosen = options.parse(arguments)
    tail = Tail()
    logs.set_up(as_json=chosen.json_logs, quiet=QUIET, also=tail)
    # A container's first process does not receive signals without a handler.
    signal.signal(signal.SIGTERM, lambda *_: _interrupted(tail))
    began = time.monotonic()
    engine = Engine(chosen)
    try:
        found = Run(chosen, Spark(engine.ranges, engine.study, engine.roll_up), Kube.connect).all()
        result = outcome.together(found)
    except Exception as error:
        log.exception("the run failed")
        result = Outcome("", UNEXPECTED, f"{type(error).__name__}: {error}", failed=True)
    finally:
        engine.stop()
    level = logging.ERROR if result.failed else logging.INFO
    log.log(level, "run ended after %.1f s: %s: %s", time.monotonic() - began, result.reason, result.message)
    outcome.tell(result, tuple(tail.lines))
    return 1 if result.failed else 0


def _interrupted(tail: Tail) -> NoReturn:
    """The run was terminated: its deadline has passed, or its Job was deleted. Executors are deleted with the pod."""
    text = "The run was terminated before it finished: its deadline has passed, or the Job was deleted."
    outcome.tell(Outcome("", INTERRUPTED, text, failed=True), tuple(tail.lines))
    os._exit(128 + signal.SIGTERM)


class Engine:
    """Spark, started on first use: the start takes seconds, and a failed read of the cluster should not wait for it."""

    def __init__(self, chosen: Options) -> None:
        self._options = chosen
        self._lock = threading.Lock()
        self._session: Any = None

    def ranges(self, target: Target, days: float) -> Ranges:
        """Offsets of the samples of the last ``days`` days."""
        from spindle_rebalance import source  # noqa: PLC0415 - it imports Spark

        since = int((time.time() - days * 86400) * 1000)
        try:
            return source.find_ranges(self._access(target), since)
        except source.SourceError as error:
            raise RunError(SAMPLES, str(error)) from error

    def study(self, target: Target, ranges: Ranges, picture: Picture) -> Findings:
        """Compute the findings from these samples."""
        from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - with Spark
        from pyspark.errors import PySparkException  # noqa: PLC0415 - it takes a second

        from spindle_rebalance.learn import learn_topic  # noqa: PLC0415 - it imports Spark

        try:
            return learn_topic(
                self._spark(),
                self._access(target),
                ranges,
                cluster_id=picture.kafka.cluster_id,
                level=_FULL,
                # Uses the recorded time of the state, so that a repeated run uses the same samples.
                replicas_since_ms=picture.at_ms - _RECENT_MS,
            )
        except PySparkException as error:
            raise RunError(ENGINE, f"Spark could not read the samples: {_short(error)}") from error
        except Py4JJavaError as error:
            why = _short(error)
            more = f"; {_MORE_MEMORY}" if any(word in why for word in _OUT_OF_MEMORY) else ""
            raise RunError(ENGINE, f"Spark failed: {why}{more}") from error
        except (Py4JError, ConnectionError) as error:
            # The JVM does not answer, most likely because the kernel killed it: out of memory, it kills the largest process of the pod.
            why = f"Spark's JVM does not answer: {_short(error)}; {_MORE_MEMORY}"
            raise RunError(ENGINE, why) from error

    def roll_up(self, target: Target, place: str, picture: Picture) -> Sequence[str]:
        """Write the hourly features that are not stored yet."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - with Spark
        from pyspark.errors import PySparkException  # noqa: PLC0415 - it takes a second

        from spindle_rebalance import source  # noqa: PLC0415 - it imports Spark
        from spindle_rebalance.rollup import catch_up  # noqa: PLC0415 - likewise

        try:
            return catch_up(
                self._spark(), self._access(target), place, picture.at_ms, picture.kafka.cluster_id
            )
        except source.SourceError as error:
            raise RunError(SAMPLES, str(error)) from error
        except (PySparkException, Py4JError, ConnectionError, OSError) as error:
            why = f"The hourly roll-up could not be written to {place}: {_short(error)} (spec.rebalance.rollup)."
            raise RunError(ROLLUP, why) from error

    def stop(self) -> None:
        """Stop Spark and its executors. If Spark is dead already, the run must still report its result."""
        if self._session is None:
            return
        try:
            self._session.stop()
        except Exception:
            log.exception("stopping Spark failed; it ends with this process")

    def _access(self, target: Target) -> Any:
        from spindle_rebalance import source  # noqa: PLC0415 - it imports Spark

        return source.Access((target.access.bootstrap,), target.access.tls)

    def _spark(self) -> Any:
        from spindle_rebalance import engine, session  # noqa: PLC0415 - it imports Spark

        with self._lock:
            if self._session is None:
                settings = engine.settings(self._options, self._template())
                with step("spark", "start") as counts:
                    self._session = session.start(
                        "spindle-rebalance", engine.master_of(self._options), settings
                    )
                    counts["cores"] = self._session.sparkContext.defaultParallelism
            return self._session

    def _template(self) -> dict[str, Any] | None:
        """The pod template of an executor, from the KafkaCluster's spec."""
        if self._options.executors is None:
            return None
        from spindle.api.cluster import KafkaClusterSpec  # noqa: PLC0415 - needed here alone
        from spindle.manifests.cronjob import executor_pod  # noqa: PLC0415 - likewise

        target = self._options.targets[0]
        cluster = Kube.connect().cluster(target.namespace, target.cluster)
        return executor_pod(cluster, KafkaClusterSpec.parse(cluster["spec"]))


def _short(error: BaseException) -> str:
    """The first informative line of Spark's message, else its first line; of a Java error the error, and the first cause of it."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        return _chain(java)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error:" in line and "Traceback" not in line]
    return (telling or lines or [type(error).__name__])[-1][:500]


def _chain(java: Any) -> str:
    """A Java exception and its first cause, which says what was refused or missing."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - with Spark

    texts: list[str] = []
    try:
        while java is not None and len(texts) < _MOST_CAUSES:
            texts.append(" ".join(str(java.toString()).split())[:_LONGEST_TEXT])
            java = java.getCause()
    except (Py4JError, ConnectionError):
        pass  # the JVM has ended meanwhile; what it said before is enough
    if not texts:
        return "Spark's JVM has ended"
    outer, first = texts[0], texts[-1]
    return outer if first in outer else f"{outer}; first cause: {first}"


if __name__ == "__main__":
    main()
