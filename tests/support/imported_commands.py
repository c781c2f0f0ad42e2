"""The modules of all commands, with SQLAlchemy's mappers configured."""

from importlib import import_module

from setproctitle import setproctitle
from sqlalchemy.orm import configure_mappers

from panel.cli import COMMANDS

setproctitle("fork server of the tests")  # forks with another environment find no memory for the first title
try:
    for name in COMMANDS:
        import_module(f"panel.cli.{name.replace('-', '_')}")
except ImportError as error:
    raise RuntimeError("A command cannot be imported.") from error  # the fork server ignores an ImportError
configure_mappers()
