"""What the API server said of a pod that this operator had it check."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PodTrial:
    """One verdict; it is not kept over a restart of the operator, which has the pod checked again.

    Attributes:
        at: when, in seconds since the epoch.
        refusal: the server's message; empty if it takes the pod.
    """

    at: float
    refusal: str = ""
