"""The operator's program with brokers' host names that lead to a server of the test: ``python -m tests.security.operator_at <port> <arguments>``.

Nothing else of it is changed. In Kubernetes the cluster's DNS does this.
"""

import runpy
import socket
import sys
from typing import Any

port = int(sys.argv.pop(1))
by_dns = socket.getaddrinfo


def resolved(host: Any, service: Any, *args: Any, **more: Any) -> Any:
    """As the DNS, but for hosts of pods."""
    name = host.decode() if isinstance(host, bytes) else str(host)
    return (
        by_dns("127.0.0.1", port, *args, **more)
        if name.endswith(".svc")
        else by_dns(host, service, *args, **more)
    )


vars(socket)["getaddrinfo"] = resolved
runpy.run_module("spindle_operator.main", run_name="__main__")
