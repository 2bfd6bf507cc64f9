"""``spindle-agent``: forks the small process that starts workers, then loads the rest of the agent."""

import os
import signal
import sys

from spindle_agent.probing.fork_server import ForkServer


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the event loop takes over
    fork_server = ForkServer.start()

    # The forecasts need no threads; numpy's library would start one for each core of the node.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported here: everything loaded earlier is in the memory of every worker.
    import asyncio  # noqa: PLC0415
    import gc  # noqa: PLC0415
    import logging  # noqa: PLC0415

    from spindle_agent.broker import keys, library  # noqa: PLC0415

    library.leave_out_clients()
    from spindle_agent import service  # noqa: PLC0415
    from spindle_agent.options import parse  # noqa: PLC0415
    from spindle_shared import logs  # noqa: PLC0415
    from spindle_shared.freed_memory import give_back  # noqa: PLC0415

    options = parse(sys.argv[1:])
    # Kafka errors are raised and logged by the agent; aiohttp's server logs a traceback for each malformed request.
    quiet = {"kafka": logging.CRITICAL, "aiohttp.server": logging.CRITICAL}
    logs.set_up(as_json=options.json_logs, quiet=quiet, level=options.log_level)
    roots = ", ".join(options.roots) or "no folder (only Kafka's reports are used)"
    logging.getLogger(__name__).info("node %s, disks below %s", options.node, roots)

    key = keys.load_or_make(options.node, options.key_file)
    gc.collect()
    give_back()  # what loading has left over: 3 MB
    gc.freeze()  # what is loaded by now stays, so no collection needs to visit it

    async def run_and_leave() -> None:
        code = await service.run(options, fork_server, key)
        logging.shutdown()
        # Exit here: closing the loop would wait for threads, and one of them may wait for a name server.
        os._exit(code)

    asyncio.run(run_and_leave())


if __name__ == "__main__":
    main()
