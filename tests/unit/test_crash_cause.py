"""The cause of a crash in Kafka's termination message: the line that names it, not the end of a stack trace."""

import pytest

from spindle.api import names
from spindle.rollout.crash_cause import cause_in_log, crash_cause

_TRACE = """\
[2025-01-01 00:00:01,000] INFO Starting controller (kafka.server.ControllerServer)
[2025-01-01 00:00:02,000] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)
java.lang.IllegalArgumentException: requirement failed: log.segment.bytes must be at least 14
\tat scala.Predef$.require(Predef.scala:337)
\tat kafka.Kafka.main(Kafka.scala)
\t... 3 more
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        pytest.param(
            _TRACE,
            "[2025-01-01 00:00:02,000] ERROR Exiting Kafka due to fatal exception (kafka.Kafka$) "
            "java.lang.IllegalArgumentException: requirement failed: log.segment.bytes must be at least 14",
            id="an error and its exception",
        ),
        pytest.param(
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x(Y.java)',
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
            id="an exception alone",
        ),
        pytest.param("Unrecognized VM option 'Foo'\n", "Unrecognized VM option 'Foo'", id="the last line"),
        pytest.param("INFO one\nkilled\n\tat a.B(C.java)", "killed", id="no frame"),
    ],
)
def test_the_cause_is_the_line_that_names_it(text: str, cause: str) -> None:
    assert cause_in_log(text) == cause


def pod(container: str, **ended: object) -> dict[str, object]:
    status = {"name": container, "lastState": {"terminated": ended}}
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}}


def test_without_a_message_it_is_the_exit_code() -> None:
    assert crash_cause(pod(names.CONTAINER_KAFKA, exitCode=137), names.CONTAINER_KAFKA) == "exit code 137"


def test_what_preflight_says_is_kept_whole() -> None:
    text = "ERROR in disk1.\nReplace the disk."
    assert crash_cause(pod(names.CONTAINER_PREFLIGHT, message=text), names.CONTAINER_PREFLIGHT) == text
