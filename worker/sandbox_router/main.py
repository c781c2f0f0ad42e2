"""The process of the sandbox router."""

import asyncio
import resource
import signal
import socket
from collections.abc import Collection, Sequence

import structlog

from panel.core.config import Config, ConfigError
from panel.core.db import begin_read_only, session
from panel.services.microvms import guest_reports, read
from panel.services.microvms.guest_reports import LogRecord, Sample
from worker.engine.application import Application
from worker.sandbox_router.channels import ChannelPool
from worker.sandbox_router.presence import publish_presence
from worker.sandbox_router.report_writer import ReportWriter
from worker.sandbox_router.reports import ReportCollector
from worker.sandbox_router.routes import RouteTable
from worker.sandbox_router.server import Router
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

BACKLOG = 512
STOP_SECONDS = 5.0
"""Seconds that requests have to end when the process stops."""


def run_router(config: Config, app: Application) -> None:
    """Carry requests to sandboxes until SIGTERM or Ctrl-C."""
    _soft, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    with publish_presence(config):
        router = build_router(config, app)
        asyncio.run(serve(config, router, build_collector(router, app)))


def build_collector(router: Router, app: Application) -> ReportCollector:
    """Return what collects the reports of sandboxes and writes them to the database."""

    def write(entries: list[LogRecord], samples: list[Sample]) -> None:
        with app.app_context():
            guest_reports.record(entries, samples)
            session.commit()

    def list_running(maximum: int) -> Sequence[str]:
        with app.app_context():
            begin_read_only()
            return read.list_running_sandbox_ids(maximum)

    return ReportCollector(router.channels, router.routes, ReportWriter(write), list_running)


def build_router(config: Config, app: Application) -> Router:
    def find_route(sandbox_id: str) -> read.Route | None:
        with app.app_context():
            begin_read_only()
            return read.find_route(sandbox_id)

    def find_connector(label: str) -> tuple[str, int] | None:
        with app.app_context():
            begin_read_only()
            return read.find_connector(label)

    def find_starting(sandbox_ids: Collection[str]) -> set[str]:
        with app.app_context():
            begin_read_only()
            return read.find_starting(sandbox_ids)

    def open_socket(route: read.Route) -> socket.socket:
        with app.app_context():
            return connect_node(route.hypervisor_id).open_channel(route.machine_id)

    routes = RouteTable(find_route, find_connector, find_starting)
    return Router(routes, ChannelPool(open_socket), config.sandbox_domain)


async def serve(config: Config, router: Router, collector: ReportCollector) -> None:
    stop_requested = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop_requested.set)
    server = await start_server(config.sandbox_bind, router)
    sweeper = asyncio.create_task(router.channels.run_sweeper())
    collecting = asyncio.create_task(collector.run())
    log.info("sandbox_router_started", bind=config.sandbox_bind)
    await stop_requested.wait()
    log.info("sandbox_router_draining", open=len(router.clients))
    server.close()
    sweeper.cancel()
    collecting.cancel()
    await stop_router(router)


async def start_server(bind: str, router: Router) -> asyncio.Server:
    """Listen on the address. Raises ConfigError when it cannot be used."""
    try:
        if bind.startswith("unix:"):
            return await asyncio.start_unix_server(router.serve_client, bind.removeprefix("unix:"), backlog=BACKLOG)
        host, _colon, port = bind.rpartition(":")
        return await asyncio.start_server(router.serve_client, host.strip("[]") or None, int(port), backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(f"PANEL_SANDBOX_BIND: {bind} cannot be used: {error.strerror}.") from None


async def stop_router(router: Router, seconds: float = STOP_SECONDS) -> None:
    """Wait for requests under way, cut those that take longer, and close the channels."""
    if router.clients:
        await asyncio.wait(router.clients, timeout=seconds)
    remaining = list(router.clients)
    for client in remaining:
        client.cancel()
    await asyncio.gather(*remaining, return_exceptions=True)
    await router.channels.close()
