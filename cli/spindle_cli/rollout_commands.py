"""``spindle rollout``: how far restarts are, and a restart of all brokers and controllers."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from spindle.model.times import stamp
from spindle_cli import field_requests
from spindle_cli.cluster_commands import while_paused
from spindle_cli.copied import command
from spindle_cli.field_requests import FieldRequest
from spindle_cli.kube import Kube
from spindle_cli.output import Output, OutputOption, structured
from spindle_cli.screen import on_one_line, say
from spindle_cli.terminal import Cluster, Force, Namespace, sentences

if TYPE_CHECKING:  # the models take longer to import than the help takes
    from spindle.api.cluster import KafkaCluster

app: Final = typer.Typer(no_args_is_help=True, help="Restarts of brokers and controllers: status, restart.")

_RESTART: Final = "RestartPod"
EXIT_STALLED: Final = 1
EXIT_UNDER_WAY: Final = 3


@dataclass(frozen=True)
class RolloutState:
    """Restarts of a cluster's brokers and controllers.

    Attributes:
        state: ``Done``, ``UnderWay``, ``Stalled`` or ``Paused``.
        message: one sentence.
        taking_down: pods that Spindle takes down now, each with the reason.
        waiting: restarts that wait, each with what holds them back.
    """

    state: str
    message: str
    taking_down: tuple[tuple[str, str], ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when nothing is left to restart."""
        return {"Done": 0, "Stalled": EXIT_STALLED}.get(self.state, EXIT_UNDER_WAY)


def rollout_state(cluster: "KafkaCluster") -> RolloutState:
    """What the cluster's status says about restarts."""
    status, name = cluster.status, cluster.metadata.name
    if status is None or status.observed_generation != cluster.metadata.generation:
        return RolloutState("UnderWay", f"The operator has not observed the latest change of {name} yet.")
    down = tuple((each.pod, each.reason) for each in status.taking_down)
    waiting = tuple(
        (each.object, f"{each.message} {each.unblocked_by}".strip())
        for each in status.waiting
        if each.action == _RESTART
    )
    conditions = {each.type: each for each in status.conditions}
    stalled, going = conditions.get("Stalled"), conditions.get("Reconciling")
    if cluster.spec.paused:
        state, message = (
            "Paused",
            f"{name} is paused: nothing restarts until: {command(f'spindle resume {name}')}",
        )
    elif stalled is not None and stalled.status == "True" and (down or waiting):
        state, message = "Stalled", stalled.message
    elif down or waiting:
        state, message = "UnderWay", f"{len(down)} going down or coming back, {len(waiting)} waiting."
    elif going is not None and going.status == "True":
        state, message = "UnderWay", going.message
    else:
        state, message = "Done", f"No broker or controller of {name} is left to restart."
    return RolloutState(state, message, down, waiting)


@app.command()
def status(cluster: Cluster = None, namespace: Namespace = None, output: OutputOption = Output.TABLE) -> None:
    """Show which brokers and controllers restart, and what the others wait for. Exit code: 0 done, 1 stalled, 3 under way or paused."""
    with sentences():
        kube = Kube.connect(namespace)
        found = rollout_state(kube.cluster(kube.one_cluster(cluster)))
        if output in (Output.JSON, Output.YAML):
            typer.echo(structured(as_dict(found), output))
        else:
            say("\n".join(on_one_line(lines(found))))
    raise typer.Exit(found.exit_code)


def as_dict(found: RolloutState) -> dict[str, Any]:
    """For JSON and YAML."""
    return {
        "state": found.state,
        "message": found.message,
        "takingDown": [{"pod": pod, "reason": reason} for pod, reason in found.taking_down],
        "waiting": [{"object": name, "message": message} for name, message in found.waiting],
    }


def lines(found: RolloutState) -> list[str]:
    """For the terminal."""
    words = {"Done": "Done", "UnderWay": "Under way", "Stalled": "Stalled", "Paused": "Paused"}
    return [
        f"{words[found.state]}: {found.message}",
        *(f"  restarts: {pod}. {reason}".rstrip() for pod, reason in found.taking_down),
        *(f"  waits: {name}: {message}" for name, message in found.waiting),
    ]


@app.command()
def restart(cluster: Cluster = None, namespace: Namespace = None, force: Force = False) -> None:
    """Restart all controllers and brokers, rack by rack, while every partition keeps min.insync.replicas."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.cluster(kube.one_cluster(cluster))
        name = found.metadata.name
        text = stamp(time.time())
        request = FieldRequest("KafkaCluster", name, "restart", {"rolling": {"restart": text}})
        field_requests.write(kube, request, found.metadata.uid, force=force)
        say(
            f"All controllers and brokers of {name} restart (spec.rolling.restart: {text}).\n"
            f"Follow it with: {command(f'spindle rollout status {name}')}"
            + (while_paused(kube, name) or f"\nTo hold it: {command(f'spindle pause {name}')}")
        )
