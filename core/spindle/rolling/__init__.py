"""Which brokers and controllers may be taken down, and which are back in sync.

The safety rule is "no restart below min.insync.replicas" (docs/safety.md); the readiness gate asks here, too. Every voluntary take-down
of a broker or controller is checked here, and nowhere else.
"""

from spindle.rolling.brokers import RestartSafety, in_sync, may_go_down
from spindle.rolling.controllers import controller_in_sync, controller_may_go_down
from spindle.rolling.rollout_order import RolloutDecision, RolloutMember, at_once, next_to_restart
from spindle.rolling.verdict import RestartVerdict

__all__ = [
    "RestartSafety",
    "RestartVerdict",
    "RolloutDecision",
    "RolloutMember",
    "at_once",
    "controller_in_sync",
    "controller_may_go_down",
    "in_sync",
    "may_go_down",
    "next_to_restart",
]
