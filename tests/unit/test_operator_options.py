import pytest

from spindle_operator.options import parse


def test_defaults_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_NAMESPACES", "a,b")
    monkeypatch.setenv("SPINDLE_IMAGE", "example.org/spindle:1")
    monkeypatch.setenv("POD_NAMESPACE", "system")
    monkeypatch.setenv("POD_NAME", "spindle-0")
    options = parse([])
    assert options.namespaces == ["a", "b"]
    assert options.image == "example.org/spindle:1"
    assert options.kafka_repository == "apache/kafka"
    assert options.lease_namespace == "system"
    assert options.identity.startswith("spindle-0_")
    assert not options.json_logs


def test_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_NAMESPACES", raising=False)
    options = parse(
        [
            "--namespace=x",
            "--namespace=y",
            "--json-logs",
            "--port=9",
            "--resync=5",
            "--kafka-repository=r/kafka",
        ]
    )
    assert options.kafka_repository == "r/kafka"
    assert options.namespaces == ["x", "y"]
    assert options.log_level == "info"
    assert not options.read_from_watches
    assert (options.json_logs, options.port, options.resync) == (True, 9, 5.0)


def test_two_starts_are_two_candidates() -> None:
    assert parse(["--identity", "same"]).identity != parse(["--identity", "same"]).identity
