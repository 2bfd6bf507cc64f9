"""Command line of the testbed: ``python -m e2e.cluster --help``."""

import argparse
import os
import sys
from typing import Final

from e2e.cluster.apiserver import KubectlError
from e2e.cluster.build import BuildError, ensure_helm
from e2e.cluster.debian import MissingProgramError
from e2e.cluster.disks import parse_size
from e2e.cluster.images import ensure_rebalance_image
from e2e.cluster.layout import LayoutError
from e2e.cluster.state import Options
from e2e.cluster.system import CommandError
from e2e.cluster.target import Unsupported
from e2e.cluster.template import ensure_template
from e2e.cluster.testbed import Testbed, TestbedError, prepare

_DISK_VERBS: Final = (
    *("fail", "error", "read-only", "fill", "slow", "hang", "freeze"),
    *("pull", "put", "swap", "heal"),
)


def parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    top = argparse.ArgumentParser(
        prog="python -m e2e.cluster", description="A real Kubernetes on one machine."
    )
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="create it (needs root)")
    up.add_argument("--nodes", type=int, default=5)
    up.add_argument("--zones", type=int, default=3)
    up.add_argument("--disks", type=int, default=3, help="data disks per node")
    up.add_argument("--disk-size", type=parse_size, default=parse_size("100Gi"), help="images are sparse")
    up.add_argument("--file-system", choices=("xfs", "ext4"), default="xfs")
    commands.add_parser(
        "build", help="build and fetch everything that up and the demo need, without starting anything"
    )
    commands.add_parser("down", help="remove it, including what a killed one left behind")
    commands.add_parser("status", help="show what exists")
    kubectl = commands.add_parser("kubectl", help="kubectl as administrator")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    inside = commands.add_parser("inside", help="run a command where pod addresses and cluster names resolve")
    inside.add_argument("arguments", nargs=argparse.REMAINDER)
    _add_faults(commands)
    return top


def _add_faults(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    commands.add_parser("images", help="rebuild Spindle's image and load it onto the nodes")
    node = commands.add_parser("node", help="power of a node")
    node.add_argument("verb", choices=("off", "on"))
    node.add_argument("node", type=int)
    node.add_argument("--lose-unsynced", action="store_true", help="lose everything that was not synced")
    disk = commands.add_parser(
        "disk", help="inject a disk fault, or swap a disk; heal undoes all except swaps"
    )
    disk.add_argument("verb", choices=_DISK_VERBS)
    disk.add_argument("node", type=int)
    disk.add_argument("disk", help="its number, starting from 0, or the name of its slot")
    disk.add_argument(
        "--keep", action="store_true", help="swap: keep the old disk, so that put can restore it"
    )
    disk.add_argument(
        "--serial", type=int, help="put: which of the former disks of the slot, starting from 1"
    )
    disk.add_argument("--new-volume", action="store_true", help="swap: the new disk is a new volume")
    disk.add_argument("--milliseconds", type=int, default=200, help="slow: additional time for each request")
    disk.add_argument("--percent", type=int, default=95, help="fill: target usage")
    link = commands.add_parser("link", help="network cable of a node")
    link.add_argument("verb", choices=("down", "up"))
    link.add_argument("node", type=int)
    partition = commands.add_parser("partition", help="drop all packets between two nodes")
    partition.add_argument("nodes", type=int, nargs=2)
    partition.add_argument("--one-way", action="store_true", help="only from the first to the second")
    commands.add_parser("heal", help="undo all partitions")
    clock = commands.add_parser("clock", help="shift the clock of containers that a node starts from now on")
    clock.add_argument("node", type=int)
    clock.add_argument("seconds", type=int, help="ahead of the machine's clock; 0 for none")
    policies = commands.add_parser("network-policies", help="enforced by kube-router, if it is installed")
    policies.add_argument("verb", choices=("on", "off"))


def run(testbed: Testbed, asked: argparse.Namespace) -> None:
    """Run the command."""
    match asked.command:
        case "up":
            testbed.up(Options(asked.nodes, asked.zones, asked.disks, asked.disk_size, asked.file_system))
        case "build":
            images = prepare()[2]
            ensure_template([*images, ensure_rebalance_image()])
            ensure_helm()
        case "down":
            testbed.down()
        case "kubectl":
            program = str(testbed.kubectl_program())
            _become([program, "--kubeconfig", str(testbed.kubeconfig), *asked.arguments])
        case "inside":
            _become(testbed.inside(*asked.arguments))
        case "status":
            print("\n".join(testbed.status()))
        case "images":
            testbed.load_images()
        case _:
            _hurt(testbed, asked)


def _hurt(testbed: Testbed, asked: argparse.Namespace) -> None:
    match asked.command, getattr(asked, "verb", ""):
        case "node", "off":
            testbed.node_off(asked.node, lose_unsynced=asked.lose_unsynced)
        case "node", _:
            testbed.node_on(asked.node)
        case "disk", verb:
            _hurt_disk(testbed, verb, asked)
        case "link", "down":
            testbed.link_down(asked.node)
        case "link", _:
            testbed.link_up(asked.node)
        case "partition", _:
            testbed.partition(*asked.nodes, both=not asked.one_way)
        case "clock", _:
            testbed.clock(asked.node, asked.seconds)
        case "network-policies", verb:
            testbed.enforce_policies(on=verb == "on")
        case _:
            testbed.heal_partitions()


def _hurt_disk(testbed: Testbed, verb: str, asked: argparse.Namespace) -> None:
    where = (asked.node, asked.disk)
    match verb:
        case "swap":
            testbed.disk_swap(*where, new_volume=asked.new_volume, keep=asked.keep)
        case "pull":
            print(f"it was number {testbed.disk_pull(*where).serial} of its slot")
        case "put":
            testbed.disk_put(*where, asked.serial)
        case "fill":
            testbed.disk_fill(*where, asked.percent)
        case "slow":
            testbed.disk_slow(*where, asked.milliseconds)
        case _:
            simple = {
                "fail": testbed.disk_fail,
                "read-only": testbed.disk_read_only,
                "freeze": testbed.disk_freeze,
                "hang": testbed.disk_hang,
                "error": testbed.disk_error,
                "heal": testbed.disk_heal,
            }
            simple[verb](*where)


def _become(command: list[str]) -> None:
    """Replace this process by another program, so that terminal, signals and exit code are passed on."""
    os.execvp(command[0], command)  # noqa: S606


def main() -> int:
    asked = parser().parse_args()
    try:
        run(Testbed(), asked)
    except (
        BuildError,
        CommandError,
        KubectlError,
        Unsupported,
        LayoutError,
        MissingProgramError,
        TestbedError,
        TimeoutError,
        KeyError,
    ) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
