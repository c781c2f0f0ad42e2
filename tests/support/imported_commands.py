"""The modules of all commands, with SQLAlchemy's mappers configured."""

from importlib import import_module

from setproctitle import setproctitle
from sqlalchemy.orm import configure_mappers

from panel.cli import COMMANDS

setproctitle("fork server of the tests")  # forks with another environment find no memory for the first title
for name in COMMANDS:
    import_module(f"panel.cli.{name}")
configure_mappers()
