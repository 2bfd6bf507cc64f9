"""The agent process: watch, probe, evaluate, report; and exit at once on a signal, even if something hangs."""

import asyncio
import logging
import signal
import time
from typing import Final

from prometheus_client import generate_latest

from spindle_agent import metrics
from spindle_agent.broker.credentials import Credentials
from spindle_agent.broker.keys import AgentKey
from spindle_agent.disk_settings import DiskSettings
from spindle_agent.heartbeat import Heartbeat
from spindle_agent.kube import Kube
from spindle_agent.node import Node
from spindle_agent.options import Options
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.probing.messages import Probed, Report
from spindle_agent.probing.pool import Key, Pool
from spindle_agent.publish import Publisher
from spindle_agent.scrub.scrubs import Scrubs
from spindle_agent.tasks import Tasks
from spindle_agent.watch import Brokers
from spindle_shared.pages import pages, serve

log = logging.getLogger(__name__)

_STUCK: Final = 60.0  # seconds without the loop's periodic work after which the process should be restarted
_LEAVING: Final = 1.0
_STOPPED: Final = 0
_BROKEN: Final = 1


async def run(options: Options, fork_server: ForkServer, key: AgentKey) -> int:
    """Run until a stop signal comes. Returns the exit code.

    Args:
        options: the command line.
        fork_server: starts workers.
        key: the agent's private key for Kafka.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, ended, _STOPPED)
    # Without the fork server nothing can be probed; a restarted agent has a new one.
    loop.add_reader(fork_server.channel, _fork_server_ended, loop, fork_server, ended)

    tasks = Tasks(lambda: _end(ended, _BROKEN))
    kube = Kube(options.api_server, options.token_file, options.ca_file)
    publisher = Publisher(kube, tasks)
    node = Node(
        options,
        publisher,
        Credentials(kube, options.own_namespace, options.node, key),
        DiskSettings(kube),
        tasks,
    )
    brokers = Brokers(kube, options.namespaces, options.node, lambda: node.sees(brokers.mine))
    heartbeat = Heartbeat(kube, options.own_namespace, options.node, key.request)
    metrics.expose(metrics.NodeState(node, publisher, heartbeat, brokers))

    def on_report(key: Key, report: Report) -> None:
        if isinstance(report, Probed) and not report.skipped:
            metrics.PROBES.observe(node.labels(key), report.seconds)
        node.take(key, report)

    node.pool = Pool(fork_server, on_report, node.worker_started)
    node.scrubs = Scrubs(fork_server, lambda key: node.tell(key[:2]))

    def problem() -> str | None:
        age = time.monotonic() - node.ticked_at
        return f"the event loop has been blocked for {age:.0f} s" if age > _STUCK else None

    async def measured() -> bytes:
        return generate_latest()

    async with serve(pages(problem, lambda: brokers.known, measured), options.port):
        for name, part in (
            ("watch", brokers.run()),
            ("clock", node.run()),
            ("disk settings", node.follow_disk_settings()),
            ("forecast", node.forecast()),
            ("lease", heartbeat.run()),
        ):
            tasks.start(part, name)
        code = await ended
        node.pool.close()
        node.scrubs.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.wait([asyncio.create_task(kube.close())], timeout=_LEAVING)
    return code


def _end(ended: "asyncio.Future[int]", code: int) -> None:
    if not ended.done():
        ended.set_result(code)


def _fork_server_ended(
    loop: asyncio.AbstractEventLoop, fork_server: ForkServer, ended: "asyncio.Future[int]"
) -> None:
    loop.remove_reader(fork_server.channel)
    log.error("the fork server has ended")
    _end(ended, _BROKEN)
