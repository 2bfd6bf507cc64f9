"""The table of commands. A module is imported when its command is called, so a command pays only for what it uses."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class Entry:
    """One command, or a group of commands.

    Attributes:
        name: as the user types it.
        module: of this package, that contains it.
        attribute: a function, or a ``typer.Typer`` of a group.
        help: first sentence of its help; empty for a former name, which the list does not show.
    """

    name: str
    module: str
    attribute: str
    help: str = ""

    def load(self) -> Any:
        """The command. Imports its module."""
        target = getattr(importlib.import_module(f"spindle_cli.{self.module}"), self.attribute)
        if isinstance(target, typer.Typer):
            target.rich_markup_mode = None
            return with_quick_values(typer.main.get_group(target))
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(self.name, hidden=not self.help)(target)
        return with_quick_values(typer.main.get_command(alone))


COMMANDS: Final = tuple(
    Entry(*row)
    for row in (
        (
            "doctor",
            "doctor.command",
            "doctor",
            "Check versions, rights, StorageClasses, volumes, nodes, zones, agents and clocks before anything is applied. Changes nothing.",
        ),
        (
            "status",
            "status_commands",
            "status",
            "Show racks, brokers, disks and log dirs of a cluster, and what it waits for.",
        ),
        (
            "wait",
            "status_commands",
            "wait",
            "Wait until a cluster is ready, and print what happens meanwhile.",
        ),
        (
            "racks",
            "racks",
            "racks",
            "Show the client.rack that a consumer sets in each zone to fetch from a replica there.",
        ),
        (
            "ui",
            "disk_map.command",
            "ui",
            "Show a live map of all disks in a browser: racks, brokers, disks, moves, and what the cluster waits for. Changes nothing.",
        ),
        (
            "disks",
            "kafka_commands",
            "disks",
            "Show the usage of each broker and each disk as bars, with the size of its replicas, as Kafka reports them.",
        ),
        (
            "explain",
            "explain",
            "explain",
            "Explain a reason: what it means, what unblocks it, whether it should alert somebody. Needs no cluster.",
        ),
        (
            "preview",
            "preview_command",
            "preview",
            "Show the effects of a changed KafkaCluster or of KafkaTopics: what is rejected, changes without a restart, changes by a rolling restart.",
        ),
        (
            "pause",
            "cluster_commands",
            "pause",
            "Let Spindle only observe and report; it changes nothing until: spindle resume.",
        ),
        ("resume", "cluster_commands", "resume", "Let Spindle act again after spindle pause."),
        (
            "delete-claims",
            "cluster_commands",
            "delete_claims",
            "Delete the claims of a KafkaCluster, and so its data, when the KafkaCluster itself is deleted.",
        ),
        (
            "abandon",
            "abandon",
            "abandon",
            "Let the deletion of a KafkaCluster end although no operator is installed any more. Its claims stay.",
        ),
        ("rollout", "rollout_commands", "app", "Restarts of brokers and controllers: status, restart."),
        (
            "broker",
            "broker_commands",
            "app",
            "One broker: stop, start, remove first, accept the loss of its node.",
        ),
        ("disk", "disk_commands", "app", "One disk: drain, cordon, release, accept its loss."),
        ("rebalance", "rebalance", "app", "Proposals to move replicas: run, show, approve, stop."),
        ("user", "user_commands", "app", "KafkaUsers: password, abandon."),
        (
            "volume",
            "volume_commands",
            "app",
            "PersistentVolumes without their claims: reuse, rebind, retain, forget.",
        ),
        ("topic", "kafka_commands", "topic", "Topics with replicas in different racks."),
        (
            "verify",
            "kafka_commands",
            "verify",
            "Send messages with acks=all, read all of them back, and check the racks of every partition.",
        ),
        (
            "report",
            "support.command",
            "report",
            "Write a support bundle: resources, events, logs, versions, and Kafka's state as the operator sees it. Contains no secrets.",
        ),
        (
            "backup",
            "backup_commands",
            "backup",
            "Print a cluster's resources, to restore them onto its disks later: spindle backup demo > demo.yaml.",
        ),
        (
            "restore",
            "backup_commands",
            "restore",
            "Restore a cluster's resources onto its disks. The disks are recognised and not formatted.",
        ),
        (
            "takeover",
            "takeover_commands",
            "app",
            "Take over a cluster from Strimzi, with its disks and data.",
        ),
        ("stop", "broker_commands", "stop", ""),
        ("start", "broker_commands", "start", ""),
    )
)


class QuickValue:
    """Takes a parameter's value that needs no conversion. For all else it asks typer, which imports pydantic for it: half of a short command's time."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a parameter, as typer's own object in this place gives it."""
        kind = param.type_descriptor.annotation
        if not param.multiple and param.nargs == 1:
            if value is None or (kind is str and isinstance(value, str)):
                return value
            if isinstance(kind, type) and issubclass(kind, StrEnum) and value in list(kind):
                return kind(value)
        return self._build().coerce(value, param=param, ctx=ctx)


def with_quick_values(command: Any) -> Any:
    """The command, with all its commands, whose parameters use `QuickValue`."""
    given = command.get_params
    command.get_params = lambda ctx: quick(given(ctx))
    for each in getattr(command, "commands", {}).values():
        with_quick_values(each)
    return command


def quick(parameters: list[Any]) -> list[Any]:
    """The parameters with `QuickValue`; unchanged in a version of typer that has no such place."""
    for each in parameters:
        build = getattr(each, "get_runtime_param", None)
        if build is not None and not isinstance(build, partial) and hasattr(each, "type_descriptor"):
            each.get_runtime_param = partial(QuickValue, build)
    return parameters


class SpindleGroup(TyperGroup):
    """The program's group of commands. Until one is called, a command without parameters stands for it."""

    def __init__(self, **attributes: Any) -> None:
        stand_ins = [
            TyperCommand(name=each.name, help=each.help, hidden=not each.help, rich_markup_mode=None)
            for each in COMMANDS
        ]
        super().__init__(**{**attributes, "commands": {str(each.name): each for each in stand_ins}})

    def get_params(self, ctx: Any) -> list[Any]:
        """The program's own options."""
        return quick(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the command line names. Imports its module."""
        name, found, rest = super().resolve_command(ctx, args)
        entry = next((each for each in COMMANDS if each.name == name), None)
        return name, entry.load() if entry else found, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the base class calls it so
        """The list of commands, with nothing shortened."""
        with formatter.section("Commands"):
            formatter.write_dl([(each.name, each.help) for each in COMMANDS if each.help])
