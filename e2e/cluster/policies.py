"""Enforces NetworkPolicies with kube-router on every node; the plain bridge does not enforce any.

kube-router is not built by the testbed: it must be on the PATH. Its rules and sets exist only in the node's network namespace, so nothing
remains after ``stop``, or when the node loses power.
"""

from pathlib import Path
from typing import Final

from e2e.cluster import cgroups
from e2e.cluster.debian import ensure_programs, which
from e2e.cluster.layout import SERVICE_RANGE, NodeLayout
from e2e.cluster.nodes import Node
from e2e.cluster.procs import Process, identify, spawn
from e2e.cluster.waiting import wait_for

PROGRAM: Final = "kube-router"
_CHAIN: Final = "KUBE-ROUTER-FORWARD"
_NO_RULES: Final = "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\nCOMMIT\n"


def is_installed() -> bool:
    """Whether kube-router is installed on this machine."""
    return which(PROGRAM) is not None


def prepare() -> None:
    """Install what kube-router runs; once for all nodes, because apt-get runs only once at a time.

    Raises:
        MissingProgramError: kube-router is not installed.
    """
    ensure_programs(PROGRAM, "ipset", "iptables")


def start(node: Node) -> None:
    """Enforce NetworkPolicies on a node, after `prepare`, until ``stop``, or until it loses power; returns when the first rules exist."""
    layout = node.layout
    if _running(layout):
        return
    command = node.command(
        which(PROGRAM) or PROGRAM,
        f"--kubeconfig={layout.testbed.pki / 'kube-router.conf'}",
        f"--hostname-override={layout.name}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--health-port=0",
    )
    log = layout.log / f"{PROGRAM}.log"
    begun = spawn([*cgroups.join_command(_group(layout)), *command], log)

    def stands() -> bool:
        if not begun.alive():
            raise RuntimeError(f"{PROGRAM} ended on {layout.name}: {log.read_text(errors='replace')[-2000:]}")
        return _CHAIN in node.run("iptables", "--wait", "--list-rules", "FORWARD")

    wait_for(f"{PROGRAM} on {layout.name}", stands, seconds=90, every=0.2)


def stop(node: Node) -> None:
    """Stop enforcing them on a node, and remove the rules."""
    for process in _running(node.layout):
        process.stop(grace=10)
    node.run("iptables-restore", "--wait", stdin=_NO_RULES)
    node.run("ipset", "destroy")


def _group(layout: NodeLayout) -> str:
    """The control group of a node's own programs."""
    return f"{layout.cgroup}/system"


def _running(layout: NodeLayout) -> list[Process]:
    """The node's kube-router processes, from its control group."""
    program = Path(which(PROGRAM) or PROGRAM).resolve()
    found = [identify(pid) for pid in cgroups.members(_group(layout)) if _runs(pid, program)]
    return [process for process in found if process]


def _runs(pid: int, program: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink() == program
    except OSError:
        return False
