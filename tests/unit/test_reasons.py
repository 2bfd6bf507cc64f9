"""The table of reasons and the code have the same ones."""

import ast
from pathlib import Path

from spindle.api.enums import ProposalPhase
from spindle.api.thresholds import UsageLevel
from spindle.model.actions import Action
from spindle.reasons import SECTIONS, all_reasons, find, page_of
from spindle.reasons.disk_states import DISK_STATES
from spindle.reconcile.wait_kinds import REASONS, WaitKind
from spindle_rebalance import errors
from tests import reasons

ROOT = Path(__file__).resolve().parents[2]


def _all_actions(kind: type[Action] = Action) -> set[str]:
    return {kind.__name__, *(name for each in kind.__subclasses__() for name in _all_actions(each))}


def _put_together() -> set[str]:
    """Reasons that the code makes from other names."""
    return {
        *(f"{name}Failed" for name in _all_actions() - {"Action"}),
        *(f"Rebalance{phase}" for phase in ProposalPhase),
        *(level.label for level in UsageLevel if level is not UsageLevel.NORMAL),
        *(value for key, value in vars(errors).items() if key.isupper()),
    }


def _constants() -> set[str]:
    """All strings in the code outside the table."""
    return {
        node.value
        for part in ("core", "operator", "rebalance")
        for path in (ROOT / part).rglob("*.py")
        if "reasons" not in path.relative_to(ROOT).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_reason_of_the_code_has_an_entry() -> None:
    code = reasons.all_reasons() | reasons.reasons() | _put_together()

    assert len(code) > 300
    assert sorted(code - {each.name for each in all_reasons()}) == []


def test_the_search_finds_reasons_wherever_they_are_written() -> None:
    found = reasons.all_reasons()

    assert {
        "WouldBeUnderMinIsr",  # a wait
        "DrainAllowed",  # handed to a helper that makes the action
        "ReplicasDropped",  # looked up in a table
        "ReconcileTimeout",  # an event of the operator
        "RestartWithDisk",  # why a pod goes down
        "BelowThresholds",  # a condition
        "SpecApplied",  # a condition of a user, by a constant
        "IOHung",  # a verdict on a disk
        "InvalidConfig",  # the default of a field
    } <= found


def test_every_entry_is_a_reason_of_the_code() -> None:
    code = _constants() | _put_together()

    assert sorted(each.name for each in all_reasons() if each.name not in code) == []


def test_every_reason_has_one_entry() -> None:
    names = [each.name.lower() for each in all_reasons()]

    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_an_entry_reads_as_the_tables_need_it() -> None:
    odd = [
        (each.name, text)
        for each in all_reasons()
        for text in (each.means, each.resolve)
        if text != text.strip(" .;,") or "\n" in text or "|" in text
    ]

    assert odd == []
    assert [each.name for each in all_reasons() if not each.means] == []


def test_only_what_needs_somebody_has_an_alert() -> None:
    odd = [
        each.name
        for each in all_reasons()
        if (each.alert == "none") != (not each.resolve or each.resolve.startswith("nothing"))
    ]

    assert odd == []


def test_what_only_a_user_can_unblock_has_an_alert() -> None:
    silent = {name for name in REASONS[WaitKind.USER] if (entry := find(name)) and entry.alert == "none"}

    # A lost controller is replaced by itself, unless too few others are left, which is a reason of its own.
    assert silent <= {"VoterLogLost"}


def test_find_knows_every_reason_in_any_case_and_where_it_is_described() -> None:
    pages = {page: (ROOT / "docs/reference" / page).read_text() for page in ("reasons.md", "disk-life.md")}
    for reason in all_reasons():
        assert find(reason.name.lower()) is reason
        page, _, anchor = page_of(reason).removeprefix("reference/").partition("#")
        assert f'<a id="{anchor}"></a>' in pages[page] if anchor else f"`{reason.name}`" in pages[page]
    assert find("NoSuchReason") is None
    assert all(section.reasons for section in (*SECTIONS, DISK_STATES))
