"""Which actions of a plan one pass carries out: a bounded number, so that a change of all brokers does not keep the pass from an urgent action.

A change of all brokers of a large cluster is thousands of writes. The actions that may wait for the next pass are those whose failure does not end
a pass either: no later action of the plan depends on them. All others are carried out in their order; where there are too many, the rest of the
plan waits with them.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
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


def batch(
    actions: Sequence[Action], tried: Mapping[str, Collection[Hashable]] | None = None
) -> tuple[Action, ...]:
    """The actions of a plan that one pass carries out, in their order.

    Args:
        actions: of the plan, in their order.
        tried: by kind, those whose turn has been (`next_tried`): the others come first.
    """
    kinds = _kinds(actions)
    bulk: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        if kind is not None:
            bulk.setdefault(kind, []).append(number)
    most = _most_of_each([len(numbers) for numbers in bulk.values()], kinds.count(None))
    mine = {number for number, kind in enumerate(kinds) if kind is None}
    for kind, numbers in bulk.items():
        had = (tried or {}).get(kind, ())
        # Stable: among those that have had their turn, as among those that have not, the order is that of the plan.
        mine.update(sorted(numbers, key=lambda number: _key(actions[number]) in had)[:most])
    return tuple(action for number, action in enumerate(actions) if number in mine)[:MOST]


def next_tried(
    tried: Mapping[str, Collection[Hashable]], actions: Sequence[Action], done: Collection[int]
) -> dict[str, frozenset[Hashable]]:
    """Those whose turn has been, for the next pass. Once all of a kind have had it, none has.

    That one was carried out is not enough to leave it out: it is planned again in each pass if somebody else reverts it.

    Args:
        tried: before this pass.
        actions: of its plan.
        done: ``id`` of the actions that were tried in it, with whatever outcome.
    """
    now: dict[str, set[Hashable]] = {}
    for action, kind in zip(actions, _kinds(actions), strict=True):
        if kind is not None:
            now.setdefault(kind, set()).add(_key(action))
    had = {kind: set(tried.get(kind, ())) for kind in now}
    for action, kind in zip(actions, _kinds(actions), strict=True):
        if kind is not None and id(action) in done:
            had[kind].add(_key(action))
    return {kind: frozenset(keys) for kind, keys in had.items() if keys and not now[kind] <= keys}


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


def _most_of_each(counts: Collection[int], others: int) -> int:
    """How many actions of each kind a pass carries out: fewer than usual where those that do not wait would have no room."""
    room = MOST - others
    if sum(min(count, MOST_OF_A_KIND) for count in counts) <= room:
        return MOST_OF_A_KIND
    return max(room // max(1, len(counts)), MOST_OF_A_KIND // 10, 1)


def _key(action: Action) -> Hashable:
    """What tells an action from others of its kind, in this plan and the next ones."""
    if isinstance(action, Apply):
        return str(action.object["metadata"]["name"])
    if isinstance(action, IssueCertificate | KeepPassword):
        return str(action.metadata["name"])
    if isinstance(action, SetPodCondition):
        return action.pod
    return action.broker if isinstance(action, Tune) else None


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
