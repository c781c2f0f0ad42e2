"""The start of the sandbox daemon."""

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .application import Application
from .channel import Servers, serve_device
from .http_server import HEAD_TIMEOUT_SECONDS, MAX_CONNECTIONS, HttpServer
from .identity import IDENTITY_PATH, IdentityFile
from .log_entries import INFO, LOG_SOCKET_PATH, LogClient

log = logging.getLogger(__name__)

MAX_OPEN_FILES = 8192
FILE_THREADS = 16
"""How many file operations run at the same time."""

CLIENT_UMASK = 0o022
"""Of files that clients create, whatever the process that starts the daemon has."""

MAX_USER_PROCESSES = 1024
"""Processes and threads of one user of the sandbox, so that there is always room for the daemon's."""


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sandbox_guest", description="Execute the calls of clients in this sandbox.")
    parser.add_argument("--address", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=49983, help="the port to listen on; 0 takes a free one")
    parser.add_argument("--code-interpreter-port", type=int, help="the port of the code interpreter; without it, none")
    parser.add_argument("--identity", default=IDENTITY_PATH, help="the file with the identity of the sandbox")
    parser.add_argument("--log", default=LOG_SOCKET_PATH, help="the socket to which entries of the log are sent")
    parser.add_argument("--device", help="the virtio-serial port to the host, such as /dev/virtio-ports/NAME")
    parser.add_argument("--max-connections", type=int, default=MAX_CONNECTIONS)
    parser.add_argument("--head-timeout", type=float, default=HEAD_TIMEOUT_SECONDS, help="in seconds")
    return parser.parse_args(arguments)


def raise_open_file_limit() -> None:
    """Allow as many open files as the connections and processes need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit_user_processes() -> None:
    """Limit the processes of each user, at most to a quarter of those that the kernel allows.

    The limit is inherited by all commands. It does not hold for root, as whom the daemon runs.
    """
    if os.geteuid() == 0:
        maximum = min(MAX_USER_PROCESSES, int(Path("/proc/sys/kernel/threads-max").read_text()) // 4)
        resource.setrlimit(resource.RLIMIT_NPROC, (maximum, maximum))


async def serve(options: argparse.Namespace) -> None:
    """Serve until the process is asked to stop."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(FILE_THREADS, thread_name_prefix="files"))
    guest_log = LogClient(options.log)
    application = Application(IdentityFile(options.identity), guest_log)
    http_server = HttpServer(application.handle, options.max_connections, options.head_timeout)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await http_server.start(options.address, options.port)
    guest_log.log(INFO, "daemon", "Daemon started")
    log.info("listening on port %d", server.sockets[0].getsockname()[1])
    servers = {options.port: http_server}
    if options.code_interpreter_port is not None:
        servers[options.code_interpreter_port] = await start_code_interpreter(options)
    await serve_until(stopped, options, servers)
    server.close()
    application.processes.stop()


async def serve_until(stopped: asyncio.Event, options: argparse.Namespace, servers: Servers) -> None:
    """Serve the host until the event. Raises what the guest's end of the channel raises."""
    tasks: set[asyncio.Task[Any]] = {asyncio.create_task(stopped.wait())}
    if options.device:
        tasks.add(asyncio.create_task(serve_device(options.device, servers)))
    done, unfinished = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    for task in done:
        task.result()


async def start_code_interpreter(options: argparse.Namespace) -> HttpServer:
    """Serve the code interpreter, whose modules no other sandbox loads."""
    from .code_interpreter import CodeInterpreter

    interpreter = CodeInterpreter(IdentityFile(options.identity))
    http_server = HttpServer(interpreter.handle, options.max_connections, options.head_timeout)
    server = await http_server.start(options.address, options.code_interpreter_port)
    log.info("code interpreter listening on port %d", server.sockets[0].getsockname()[1])
    return http_server


def main() -> None:
    """Run the daemon."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    os.umask(CLIENT_UMASK)
    raise_open_file_limit()
    limit_user_processes()
    asyncio.run(serve(parse_options()))
