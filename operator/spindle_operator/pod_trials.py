"""Verdicts of the API server on pods with a changed pod template, from the results of a pass."""

from collections.abc import Iterable, Mapping
from typing import Final

from spindle.model.actions import TryPod
from spindle.model.pod_trials import PodTrial
from spindle_operator.act import CONFLICT, DONE, GONE, STALE, Result

Trials = Mapping[str, PodTrial]

_KEPT: Final = 64  # verdicts of a cluster: it has at most 13 templates, and old ones are of no use
# No verdict on the pod: a webhook that cannot be asked without a create, and a quota that the running pod still uses up.
_NO_VERDICT: Final = ("does not support dry run", "exceeded quota")


def verdicts(before: Trials, results: Iterable[Result], now: float) -> dict[str, PodTrial]:
    """The verdicts so far, and those of a pass.

    Args:
        before: earlier verdicts by key, the oldest first.
        results: of the actions of the pass.
        now: the time, in seconds since the epoch.
    """
    found = dict(before)
    for result in results:
        action = result.action
        if not isinstance(action, TryPod) or result.outcome in (CONFLICT, GONE, STALE):
            continue
        passed = result.outcome == DONE or any(text in result.detail for text in _NO_VERDICT)
        found.pop(action.key, None)
        found[action.key] = PodTrial(now, "" if passed else result.detail or "no reason given")
    return dict(list(found.items())[-_KEPT:])
