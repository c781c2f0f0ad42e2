"""The command `panel`, which runs and operates an installation."""

import gc
import sys
from importlib import import_module

import click

import panel
from panel.core.config import ConfigError
from panel.core.errors import Problem
from worker.nodes.base import NodeError

COMMANDS = (
    "up",
    "web",
    "worker",
    "schedule",
    "console",
    "sandbox",
    "setup",
    "doctor",
    "backup",
    "backup-key",
    "db",
    "user",
    "token",
    "node",
    "image",
    "openapi",
)


class Commands(click.Group):
    """The commands of `panel`. The module of a command is imported on use."""

    def list_commands(self, ctx):
        return COMMANDS

    def get_command(self, ctx, name):
        if name not in COMMANDS:
            return None
        gc.disable()  # importing creates no garbage; without collections it is about 10 % faster
        try:
            return import_module(f"panel.cli.{name.replace('-', '_')}").command
        finally:
            gc.enable()
            gc.freeze()

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except NodeError as error:
            raise click.ClickException(error.detail) from None
        except (ConfigError, Problem) as error:
            raise click.ClickException(str(error)) from None
        except Exception as error:
            raise find_outage_message(error) or error from None


def find_outage_message(error):
    """Return the click error for a database outage; None for other errors."""
    if "sqlalchemy" not in sys.modules:
        return None
    from panel.core.database_errors import find_outage

    outage = find_outage(error)
    return outage and click.ClickException(f"The database is not available ({outage.problem}): {outage.detail}")


@click.group(cls=Commands)
@click.version_option(panel.__version__, message=f"%(prog)s %(version)s (interface level {panel.INTERFACE_VERSION})")
def main():
    """One panel for virtual infrastructure. Settings come from the environment: PANEL_<NAME>."""
