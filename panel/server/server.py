"""The processes of the web server: a parent that listens and supervises, and forked processes that serve."""

import asyncio
import functools
import gc
import logging
import mmap
import os
import resource
import signal
import socket
import struct
import time
from contextlib import suppress

import structlog
import uvicorn

from panel.server.application import Application
from panel.server.connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits
from panel.server.expiry import expire_connections
from panel.server.protocol import build_protocol_factory
from panel.server.wsgi import ThreadedWsgi

log = structlog.get_logger()

BACKLOG_CONNECTIONS = 2048
SHUTDOWN_SECONDS = 30
"""How long running requests may take after SIGTERM."""

SILENCE_SECONDS = 60
"""A process whose event loop has not run for this time is replaced."""

WATCHED_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


class StartFailed(Exception):
    """A web process ended before it served."""


def open_listener(bind) -> socket.socket:
    """Listen at `host:port` or `unix:path`."""
    if bind.startswith("unix:"):
        path = bind.removeprefix("unix:")
        with suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o666)  # the proxy may be another user; the directory restricts access
        listener.listen(BACKLOG_CONNECTIONS)
        return listener
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=BACKLOG_CONNECTIONS)


def raise_file_limit():
    """Raise the process's limit of open files to the maximum that the system allows."""
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))


class ServerProcess(uvicorn.Server):
    """One process that serves. `heartbeat` is called about once a second while the event loop runs; the process stops
    when it returns False."""

    def __init__(self, application: Application, limits: ConnectionLimits, heartbeat):
        self.application, self.heartbeat = application, heartbeat
        config = uvicorn.Config(
            application,
            http=build_protocol_factory(limits),
            ws="none",
            loop="uvloop",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            callback_notify=self.notify,
            timeout_notify=1,
        )
        super().__init__(config)

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.expiry = asyncio.create_task(expire_connections(self.server_state.connections, self.application.stopping))

    async def shutdown(self, sockets=None):
        self.application.stopping.set()
        await super().shutdown(sockets)

    async def notify(self):
        if not self.heartbeat():
            self.should_exit = True


def serve(wsgi, listener, *, threads, body_max_bytes, limits, routes=(), heartbeat=lambda: True):
    """Serve in this process until SIGTERM."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    gc.freeze()  # what exists now stays until the end: to search it for garbage takes a third of a second
    application = Application(ThreadedWsgi(wsgi, threads, body_max_bytes), routes)
    ServerProcess(application, limits, heartbeat).run([listener])


class ParentProcess:
    """Forks the processes that serve, and replaces those that exit or hang.

    SIGTERM and SIGINT stop all after their running requests, a second signal at once. SIGHUP replaces all.
    """

    def __init__(self, listener, count, run_process):
        self.listener, self.count, self.work = listener, count, run_process
        self.processes: dict[int, mmap.mmap] = {}
        """By process id, the shared memory with the monotonic time of the last heartbeat; 0.0 before it serves."""
        self.stop_at = None

    def run(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED_SIGNALS)
        self.fork_missing()
        while self.processes:
            received = signal.sigtimedwait(WATCHED_SIGNALS, 1)
            if received and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                self.stop()
            elif received and received.si_signo == signal.SIGHUP and self.stop_at is None:
                self.replace()
            self.collect_ended()
            self.kill_silent()
            if self.stop_at is None:
                self.fork_missing()
        log.info("web_stopped")

    def fork_missing(self):
        while len(self.processes) < self.count:
            self.fork()

    def fork(self):
        heartbeat = mmap.mmap(-1, 8)
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: os._exit(0))  # before and after uvicorn's own handling
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED_SIGNALS)
                self.work(self.listener, functools.partial(write_heartbeat, heartbeat, parent))
                status = 0
            except BaseException:
                log.exception("web_process_failed")
            finally:
                logging.shutdown()
                os._exit(status)
        self.processes[pid] = heartbeat
        log.info("web_process_started", process=pid)

    def stop(self):
        signal_number = signal.SIGTERM if self.stop_at is None else signal.SIGKILL
        log.info("web_stopping", at_once=signal_number == signal.SIGKILL)
        self.stop_at = self.stop_at or time.monotonic()
        for pid in self.processes:
            os.kill(pid, signal_number)

    def replace(self):
        """Start new processes, then stop the old ones."""
        old, self.processes = self.processes, {}
        self.fork_missing()
        self.processes |= old
        for pid in old:
            os.kill(pid, signal.SIGTERM)

    def collect_ended(self):
        for pid in tuple(self.processes):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            served = read_heartbeat(self.processes.pop(pid))
            if self.stop_at is None:
                exit_code = os.waitstatus_to_exitcode(status)
                log.info("web_process_ended", process=pid, status=exit_code)
                was_stopped = exit_code in (0, -signal.SIGTERM, -signal.SIGKILL)  # a reload, or lack of memory
                if not served and not was_stopped:
                    self.stop()
                    raise StartFailed("A web process could not start: see above.")

    def kill_silent(self):
        now = time.monotonic()
        for pid, heartbeat in self.processes.items():
            served = read_heartbeat(heartbeat)
            is_late = self.stop_at is not None and now - self.stop_at > SHUTDOWN_SECONDS + 5
            if is_late or (served and now - served > SILENCE_SECONDS and self.stop_at is None):
                log.warning("web_process_killed", process=pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def write_heartbeat(heartbeat, parent):
    """Record that the event loop runs. Return whether the process should continue: False when its parent has exited."""
    heartbeat[:] = struct.pack("d", time.monotonic())
    return os.getppid() == parent


def read_heartbeat(heartbeat):
    return struct.unpack("d", heartbeat[:])[0]
