"""Reasons about controllers."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Controllers",
        "How the quorum changes and how a lost controller is replaced has [a page of its own](../controllers.md).",
        (
            Reason(
                "ControllersJoining",
                "controllers start and read the metadata log before they join the quorum",
                "nothing: they join; if one does not start, its pod says why",
                "none",
            ),
            Reason(
                "ControllersNotReady",
                "the quorum is to change, and one of its voters does not run, lags, or is about to restart",
                "it runs and has caught up",
                "ticket",
            ),
            Reason(
                "QuorumMajorityMissing",
                "a controller lost its disk, and the others that run are too few to take it out of the quorum",
                "they run again, or its own disk comes back",
                "ticket",
            ),
            Reason(
                "QuorumChanging",
                "a voter joins or leaves at this moment, and no controller restarts meanwhile",
                "nothing: it is done in a moment",
                "none",
            ),
            Reason("EvenControllerCount", "an even number of controllers is wanted", "1, 3 or 5", "ticket"),
            Reason(
                "StaticQuorum",
                "the voters of a static quorum (kraft.version 0) cannot change",
                "raise `kraft.version` to 1, or set `controllers.replicas` back",
                "ticket",
            ),
            Reason(
                "UnknownVoter",
                "the quorum has a voter that Spindle did not make; it is left alone",
                "take it out if nobody needs it: the message has the command",
                "ticket",
            ),
        ),
    ),
)
