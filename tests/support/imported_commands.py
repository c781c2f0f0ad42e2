"""The modules of all commands, with SQLAlchemy's mappers configured."""

from importlib import import_module

from sqlalchemy.orm import configure_mappers

from panel.cli import COMMANDS

for name in COMMANDS:
    import_module(f"panel.cli.{name}")
configure_mappers()
