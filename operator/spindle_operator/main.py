"""``spindle-operator``: ends on SIGTERM from its first moment on.

The operator proper is imported only by ``main``: that takes seconds, on a busy machine many, and a container's first process
does not even receive the signals that it has no handler for.
"""

import asyncio
import logging
import os
import signal
import sys

from spindle_operator.options import parse


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the loop runs and takes it over
    options = parse(sys.argv[1:])

    from spindle_operator import logs, service  # noqa: PLC0415 - see the module's docstring

    logs.set_up(as_json=options.json_logs)
    where = f"namespaces {', '.join(options.namespaces)}" if options.namespaces else "all namespaces"
    agents = f"agents live in {options.agent_namespace}" if options.agent_namespace else "there are no agents"
    logging.getLogger(__name__).info("starting, serving %s; %s", where, agents)
    code = asyncio.run(service.run(options))
    logging.shutdown()
    # Threads that still wait for a broker's answer must not hold up the exit.
    os._exit(code)


if __name__ == "__main__":
    main()
