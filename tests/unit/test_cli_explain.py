import json

import pytest
from typer.testing import CliRunner

from spindle.reasons import all_reasons
from spindle_cli import main
from spindle_cli.explain import explanation

RUNNER = CliRunner()


def test_a_reason_is_explained_without_a_cluster() -> None:
    result = RUNNER.invoke(main.app, ["explain", "NodeLost"])

    assert result.exit_code == 0
    assert result.output.startswith("NodeLost\n\n  The node was declared lost")
    assert (
        "To resolve: bring the node back, or accept the loss with spec.acceptDataLoss.node" in result.output
    )
    assert "Alert: ticket" in result.output
    assert "More: docs/reference/reasons.md#nodelost" in result.output


def test_of_what_spindle_resolves_by_itself_it_says_so() -> None:
    result = RUNNER.invoke(main.app, ["explain", "Soaking"])

    assert "  Nothing to do: the time passes.\n  Alert: none.\n" in result.output


def test_an_event_of_a_disk_is_known_in_any_case() -> None:
    result = RUNNER.invoke(main.app, ["explain", "diskevacuated"])

    assert result.output.startswith("DiskEvacuated\n")
    assert "docs/reference/disk-life.md" in result.output


def test_an_unknown_reason_suggests_the_nearest() -> None:
    result = RUNNER.invoke(main.app, ["explain", "WouldBeUnderMinISRs"])

    assert result.exit_code == 1
    assert "there is no reason WouldBeUnderMinISRs. Did you mean WouldBeUnderMinIsr" in result.output


def test_of_nothing_near_the_page_is_named() -> None:
    result = RUNNER.invoke(main.app, ["explain", "zzzz"])

    assert result.exit_code == 1
    assert "docs/reference/reasons.md" in result.output


@pytest.mark.parametrize("mark", ["](", "`", ".."])
def test_no_markdown_is_left(mark: str) -> None:
    assert [each.name for each in all_reasons() if mark in explanation(each)] == []


def test_a_link_keeps_its_page() -> None:
    result = RUNNER.invoke(main.app, ["explain", "LoadingLogs"])

    assert "loads its logs (docs/starts.md)" in result.output


def test_a_reason_is_for_programs_as_well() -> None:
    found = json.loads(RUNNER.invoke(main.app, ["explain", "NodeLost", "-o", "json"]).stdout)
    assert found["reason"] == "NodeLost"
    assert found["alert"] in {"page", "ticket", "none"}
    assert found["page"].startswith("docs/")
