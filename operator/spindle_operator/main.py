"""``spindle-operator``: handles SIGTERM from its first moment.

Only ``main`` imports the operator itself: the import takes seconds, on a busy machine many, and a container's process with PID 1
does not receive signals that it has no handler for.
"""

import asyncio
import logging
import os
import signal
import sys
from typing import Final

from spindle_operator.options import parse
from spindle_shared import logs
from spindle_shared.freed_memory import use_one_heap

# kopf reports each event's handler as succeeded; kafka-python reports each connection attempt. Both are noise: failures of
# either come back as errors that the operator logs. aiohttp's server logs a traceback for each malformed request.
QUIET: Final = {
    "kopf.objects": logging.WARNING,
    "kopf": logging.WARNING,
    "kafka": logging.CRITICAL,
    "aiohttp.server": logging.CRITICAL,
}


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the event loop runs and replaces it
    options = parse(sys.argv[1:])
    use_one_heap()

    from spindle_operator import service  # noqa: PLC0415 - see the module's docstring

    logs.set_up(as_json=options.json_logs, quiet=QUIET, level=options.log_level)
    where = ", ".join(options.namespaces) if options.namespaces else "all"
    agents = (
        f"agents are in namespace {options.agent_namespace}"
        if options.agent_namespace
        else "there are no agents"
    )
    logging.getLogger(__name__).info("starting; managed namespaces: %s; %s", where, agents)
    code = asyncio.run(service.run(options))
    logging.shutdown()
    # Threads that still wait for a broker must not delay the exit.
    os._exit(code)


if __name__ == "__main__":
    main()
