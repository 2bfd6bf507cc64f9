"""Network of the testbed: a bridge in a namespace of its own, one namespace per node, static routes, no route to the outside."""

from e2e.cluster.layout import CONTROL_ADDRESS, SERVICE_RANGE, Layout, NodeLayout
from e2e.cluster.system import CommandError, in_netns, run

BRIDGE = "bridge0"
_TABLE = "partition"


def make(layout: Layout, nodes: int) -> None:
    """Make bridge, namespaces, cables and routes for this many nodes."""
    control = layout.control_netns
    run("ip", "netns", "add", control)
    _ip(
        control,
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"address add {CONTROL_ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
        # Without a route, packets to a Service never reach kube-proxy's rules.
        f"route add {SERVICE_RANGE} dev {BRIDGE}",
    )
    everyone = [layout.node(index) for index in range(1, nodes + 1)]
    for node in everyone:
        _make_node(control, node, everyone)


def remove(layout: Layout) -> None:
    """Remove all namespaces of this testbed with their contents."""
    for name in namespaces(layout):
        run("ip", "netns", "delete", name)


def namespaces(layout: Layout) -> list[str]:
    """Names of the network namespaces that exist."""
    listed = (line.split()[0] for line in run("ip", "netns", "list").splitlines() if line)
    return [name for name in listed if name.startswith(layout.netns_prefix)]


def set_link(node: NodeLayout, *, up: bool) -> None:
    """Plug a node's cable in, or unplug it."""
    _ip(node.testbed.control_netns, f"link set {node.link} {'up' if up else 'down'}")


def link_is_up(node: NodeLayout) -> bool:
    """Whether a node's cable is plugged in."""
    shown = run(*in_netns(node.testbed.control_netns, "ip", "-o", "link", "show", node.link))
    return "state DOWN" not in shown


def partition(a: NodeLayout, b: NodeLayout, *, both: bool = True) -> None:
    """Drop packets from node a to node b, and those back unless only one direction is requested."""
    pairs = [(a, b), (b, a)] if both else [(a, b)]
    rules = "".join(
        f"add rule bridge {_TABLE} forward iifname {one.link} oifname {other.link} drop\n"
        for one, other in pairs
    )
    chain = f"add table bridge {_TABLE}\nadd chain bridge {_TABLE} forward {{ type filter hook forward priority 0; }}\n"
    run(*in_netns(a.testbed.control_netns, "nft", "-f", "-"), stdin=chain + rules)


def heal(layout: Layout) -> None:
    """Undo all partitions."""
    try:
        run(*in_netns(layout.control_netns, "nft", "delete", "table", "bridge", _TABLE))
    except CommandError as error:
        if "No such file" not in error.output:
            raise


def _make_node(control: str, node: NodeLayout, everyone: list[NodeLayout]) -> None:
    run("ip", "netns", "add", node.netns)
    _ip(
        control,
        f"link add {node.link} type veth peer name eth0 netns {node.netns}",
        f"link set {node.link} master {BRIDGE} up",
        f"route add {node.pods} via {node.address}",
    )
    _ip(
        node.netns,
        "link set lo up",
        f"address add {node.address}/24 dev eth0",
        "link set eth0 up",
        f"route add {SERVICE_RANGE} via {CONTROL_ADDRESS}",
        *(f"route add {other.pods} via {other.address}" for other in everyone if other != node),
    )
    run(*in_netns(node.netns, "sysctl", "-qw", "net.ipv4.ip_forward=1"))


def _ip(netns: str, *lines: str) -> None:
    """Run several ``ip`` commands at once."""
    run(*in_netns(netns, "ip", "-batch", "-"), stdin="\n".join(lines) + "\n")
