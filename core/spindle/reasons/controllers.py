"""Reasons about controllers and their quorum."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Controllers",
        "[Controllers](../controllers.md) describes quorum changes and the replacement of a lost controller.",
        (
            Reason(
                "QuorumPending",
                "the brokers of a new cluster wait until most of its controllers know that the quorum has committed a record",
                "nothing: it takes seconds; if it takes longer, look at the controllers",
                "none",
            ),
            Reason(
                "QuorumUnknown",
                "the controllers cannot be asked about their quorum",
                "make the controllers run and answer",
                "page",
            ),
            Reason(
                "NoQuorumLeader",
                "the quorum has no leader, so Kafka cannot elect partition leaders or change metadata",
                "make a majority of the controllers run",
                "page",
            ),
            Reason(
                "QuorumMajorityMissing",
                "a controller lost its disk, and too few others run to remove it from the quorum",
                "make the others run again, or bring the disk of this one back",
                "page",
            ),
            Reason(
                "WouldLoseQuorum",
                "the controllers would lose their majority, so none of them is stopped",
                "nothing: it continues when the other controllers have caught up; if one of them does not run, its pod says why",
                "none",
            ),
            Reason(
                "VoterLogLost",
                "a controller that has run before has a blank disk",
                "nothing: the controller [is replaced](../controllers.md#a-lost-one) if the others are a majority; otherwise bring the original disk back",
                "none",
            ),
            Reason(
                "ControllersJoining",
                "new controllers start and read the metadata log before they join the quorum",
                "nothing: they join; if one does not start, its pod says why",
                "none",
            ),
            Reason(
                "ControllersNotReady",
                "the quorum is to change, but one of its voters does not run, lags, or is about to restart",
                "nothing: it continues when that voter has caught up; if it does not run, its pod says why",
                "none",
            ),
            Reason(
                "QuorumChanging",
                "a voter is joining or leaving, and no controller restarts meanwhile",
                "nothing: it takes a moment",
                "none",
            ),
            Reason(
                "EvenControllerCount",
                "the spec asks for an even number of controllers",
                "set `controllers.replicas` to 1, 3 or 5",
                "ticket",
            ),
            Reason(
                "StaticQuorum",
                "the voters of a static quorum (kraft.version 0) cannot change",
                "raise `kraft.version` to 1, or set `controllers.replicas` back",
                "ticket",
            ),
            Reason(
                "QuorumStatic",
                "a cluster that was [migrated from Strimzi](../takeover.md) still has its voters in its configuration; `kraft.version` is raised when all controllers run",
                "nothing: Spindle raises it",
                "none",
            ),
            Reason(
                "KraftVersionRaised",
                "`kraft.version` was raised to 1: Kafka records the voters in its metadata log",
            ),
            Reason(
                "QuorumDynamic",
                "the voters are in Kafka's metadata log, and the nodes are restarted without them in their configuration",
            ),
            Reason(
                "UnknownVoter",
                "the quorum has a voter that Spindle did not create; Spindle does not touch it",
                "remove it if it is not needed: the message has the command",
                "ticket",
            ),
            Reason(
                "ControllersAdded",
                "new controllers were recorded and are created; they join when they have read the metadata log",
            ),
            Reason("ControllerAdded", "a controller has caught up and joins the quorum"),
            Reason("ControllerRemoved", "a controller is removed from the quorum; the message says why"),
            Reason("ControllerDeleted", "a controller is no longer a voter and is stopped; its claim stays"),
            Reason("ControllerStopped", "the pod of a controller is stopped; the message says why"),
            Reason(
                "ControllerRenewed",
                "a controller that lost its disk starts on a blank disk with a new directory id",
            ),
            Reason("ControllerReadded", "a controller has its former disk again, and is recorded with it"),
        ),
    ),
)
