"""`panel web`: pages, APIs and consoles, served by gunicorn."""

import click
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from panel.app import create_app
from panel.config import Config, load
from panel.logs import setup


class Logs(Logger):
    """Gunicorn's messages go where ours go. Requests are not logged: what is asked for can be a secret."""

    def setup(self, cfg):
        self.error_log.propagate = True


class Server(BaseApplication):
    def __init__(self, panel_config: Config):
        self.panel_config = panel_config
        super().__init__(prog="panel web")

    def load_config(self):
        settings = {
            "bind": self.panel_config.bind,
            "worker_class": "gthread",
            "workers": self.panel_config.web_workers,
            "threads": self.panel_config.web_threads,
            "timeout": 60,
            "graceful_timeout": 30,
            "keepalive": 15,
            "logger_class": Logs,
            "control_socket_disable": True,
            "forwarded_allow_ips": "",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self):
        return create_app(self.panel_config)


@click.command()
def command():
    """Serve the panel until SIGTERM; requests under way are finished."""
    config = load()
    setup(config.json_logs)
    Server(config).run()
