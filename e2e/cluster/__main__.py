"""Command line of the testbed: ``python -m e2e.cluster --help``."""

import argparse
import os
import sys

from e2e.cluster.apiserver import KubectlError
from e2e.cluster.build import BuildError
from e2e.cluster.debian import MissingProgramError
from e2e.cluster.disks import parse_size
from e2e.cluster.layout import LayoutError
from e2e.cluster.state import Options
from e2e.cluster.system import CommandError
from e2e.cluster.testbed import Testbed, TestbedError


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(
        prog="python -m e2e.cluster", description="A real Kubernetes on one machine."
    )
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make it (needs root)")
    up.add_argument("--nodes", type=int, default=5)
    up.add_argument("--zones", type=int, default=3)
    up.add_argument("--disks", type=int, default=3, help="data disks per node")
    up.add_argument("--disk-size", type=parse_size, default=parse_size("100Gi"), help="images are sparse")
    up.add_argument("--file-system", choices=("xfs", "ext4"), default="xfs")
    commands.add_parser("down", help="take it away, or what a killed one left")
    commands.add_parser("status", help="what there is")
    kubectl = commands.add_parser("kubectl", help="kubectl as administrator")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    inside = commands.add_parser("inside", help="run a command where pods' addresses and names work")
    inside.add_argument("arguments", nargs=argparse.REMAINDER)
    return top


def run(testbed: Testbed, asked: argparse.Namespace) -> None:
    """Do what was asked for."""
    match asked.command:
        case "up":
            testbed.up(Options(asked.nodes, asked.zones, asked.disks, asked.disk_size, asked.file_system))
        case "down":
            testbed.down()
        case "kubectl":
            program = str(testbed.kubectl_program())
            _become([program, "--kubeconfig", str(testbed.kubeconfig), *asked.arguments])
        case "inside":
            _become(testbed.inside(*asked.arguments))
        case _:
            raise TestbedError(f"{asked.command}: not made yet")


def _become(command: list[str]) -> None:
    """Turn into another program, so that its terminal, signals and exit code are this one's."""
    os.execvp(command[0], command)  # noqa: S606


def main() -> int:
    asked = parser().parse_args()
    try:
        run(Testbed(), asked)
    except (
        BuildError,
        CommandError,
        KubectlError,
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
