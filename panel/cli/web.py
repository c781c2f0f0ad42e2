"""`panel web`: pages, APIs and consoles, served by gunicorn."""

import socket
import struct
import sys

import click
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from panel.app import create_app
from panel.cli import start, unreadable
from panel.config import Config
from panel.database_probe import get_probe
from panel.db import bare_app, db
from panel.logs import setup
from panel.startup import check_installation

SLOWEST = 10
"""Seconds that a client may pause inside a request or an answer. Who pauses longer is dropped: each such client holds
one of the few threads."""


class Logs(Logger):
    """Gunicorn's messages go where ours go. Requests are not logged: what is asked for can be a secret."""

    def setup(self, cfg):
        self.error_log.propagate = True

    def exception(self, message, *args, **options):
        if not isinstance(sys.exception(), BlockingIOError):  # a client that was too slow is no fault of ours
            super().exception(message, *args, **options)


class Server(BaseApplication):
    def __init__(self, panel_config: Config, is_checked):
        self.panel_config, self.is_checked = panel_config, is_checked
        super().__init__(prog="panel web")

    def load_config(self):
        settings = {
            "bind": self.panel_config.bind,
            "worker_class": unreadable.Worker,
            "workers": self.panel_config.web_workers,
            "threads": self.panel_config.web_threads,
            "timeout": 60,
            "graceful_timeout": 30,
            "keepalive": 15,
            "logger_class": Logs,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",
            "when_ready": limit_pauses,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self):
        app = create_app(self.panel_config)
        get_probe(app).start(is_checked=self.is_checked)
        return app


def limit_pauses(server):
    """Clients' sockets inherit this from the listening ones. The kernel keeps the time, because the threads worker
    makes every socket wait for ever. It does not touch those that were handed to the console process: they never wait
    (line.py)."""
    for listener in server.LISTENERS:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            listener.sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", SLOWEST, 0))


def check_before_fork(config):
    """Check the installation once for all web processes, which must not share its connection."""
    app = bare_app(config)
    try:
        return check_installation(app)
    finally:
        with app.app_context():
            db.engine.dispose()


@click.command()
def command():
    """Serve the panel until SIGTERM; requests under way are finished."""
    config = start.begin()
    setup(config.json_logs)
    Server(config, check_before_fork(config)).run()
