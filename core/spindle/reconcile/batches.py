"""Which actions of a plan one pass carries out: a bounded number, so that a change of all brokers does not keep the pass from an urgent action.

A change of all brokers of a large cluster is thousands of writes. The actions that may wait for the next pass are those whose failure does not end
a pass either: no later action of the plan depends on them. All others are carried out in their order; where there are too many, the rest of the
plan waits with them.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from spindle.model.actions import (
    Action,
    Apply,
    Create,
    IssueCertificate,
    KeepPassword,
    SetPodCondition,
    Tune,
)
from spindle.model.waiting import Waiting, counted

MOST: Final = 1000  # actions of a pass
MOST_OF_A_KIND: Final = 200  # of those that may wait


def batch(actions: Sequence[Action], turns: Mapping[str, int] | None = None) -> tuple[Action, ...]:
    """The actions of a plan that one pass carries out, in their order.

    Args:
        actions: of the plan, in their order.
        turns: by kind, how many portions of its actions are passed over, because they were refused (`next_turns`).
    """
    kinds = _kinds(actions)
    left = {
        kind: _window(count, (turns or {}).get(kind, 0))
        for kind, count in Counter(kind for kind in kinds if kind is not None).items()
    }
    seen: Counter[str] = Counter()
    chosen = []
    for action, kind in zip(actions, kinds, strict=True):
        if kind is not None:
            seen[kind] += 1
            if seen[kind] - 1 not in left[kind]:
                continue
        chosen.append(action)
    return tuple(chosen[:MOST])


def next_turns(
    turns: Mapping[str, int], actions: Sequence[Action], changed: Collection[int]
) -> dict[str, int]:
    """The turns of the next pass: where not one action of a kind was carried out, others of this kind come first.

    Args:
        turns: of this pass.
        actions: of its plan.
        changed: ``id`` of the actions that were carried out.
    """
    kinds = _kinds(actions)
    moved = {kind for action, kind in zip(actions, kinds, strict=True) if id(action) in changed}
    many = Counter(kind for kind in kinds if kind is not None)
    return {
        kind: turns.get(kind, 0) + 1
        for kind, count in many.items()
        if count > MOST_OF_A_KIND and kind not in moved
    }


def more_to_come(name: str, actions: Sequence[Action]) -> Waiting | None:
    """The wait for the actions that a later pass carries out; None if there are none."""
    later = len(actions) - len(batch(actions))
    if not later:
        return None
    return Waiting(
        "ChangeObjects",
        f"KafkaCluster/{name}",
        "ManyChanges",
        f"This pass makes {len(actions) - later} of {counted(len(actions), 'change')}, so that urgent ones do not wait for all of them; {later} more follow.",
        "Nothing to do: Spindle continues with the next pass.",
        quiet=True,
    )


def _window(count: int, turn: int) -> Collection[int]:
    """Positions of the actions of a kind that are carried out."""
    if count <= MOST_OF_A_KIND:
        return range(count)
    start = turn * MOST_OF_A_KIND % count
    return {position % count for position in range(start, start + MOST_OF_A_KIND)}


def _kinds(actions: Sequence[Action]) -> list[str | None]:
    """For each action the kind of which a pass carries out a limited number; None for those that do not wait."""
    mounted = {
        each
        for action in actions
        if isinstance(action, Create) and action.object.get("kind") == "Pod"
        for each in _mounted(action.object)
    }
    return [_kind(action, mounted) for action in actions]


def _kind(action: Action, mounted: Collection[tuple[str, str]]) -> str | None:
    if isinstance(action, Apply):
        kind, name = str(action.object["kind"]), str(action.object["metadata"]["name"])
        # A pod that is created in the same pass must not start with the old content.
        return None if kind == "KafkaBroker" or (kind, name) in mounted else f"Apply {kind}"
    if isinstance(action, IssueCertificate | KeepPassword):
        return None if ("Secret", str(action.metadata["name"])) in mounted else type(action).__name__
    # A pod that is not in sync any more is said at once: budgets count it.
    if isinstance(action, Tune) or (isinstance(action, SetPodCondition) and action.status):
        return type(action).__name__
    return None


def _mounted(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Kind and name of the objects whose content a pod mounts."""
    found = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if held := source.get("configMap"):
                found.append(("ConfigMap", str(held.get("name"))))
            if held := source.get("secret"):
                found.append(("Secret", str(held.get("secretName") or held.get("name"))))
    return found
