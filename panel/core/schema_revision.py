"""The revision of the database's tables, compared with the migrations of this version."""

import re
from functools import cache

from sqlalchemy import Connection, inspect, text

from panel.core.config import ROOT, ConfigError

REVISION_PATTERN = re.compile(r"^(revision|down_revision) = (?:['\"](\w+)['\"]|None)", re.MULTILINE)

NEWEST_TABLE = "installation_values"


@cache
def list_known_revisions() -> tuple[set[str], set[str]]:
    """Return (all revisions, newest revisions), parsed from the files: importing Alembic would slow every start."""
    revisions, parents = set(), set()
    for file in (ROOT / "panel" / "migrations" / "versions").glob("*.py"):
        values = dict(REVISION_PATTERN.findall(file.read_text()))
        revisions.add(values["revision"])
        parents.add(values["down_revision"])
    return revisions, revisions - parents


def read_database_revisions(connection: Connection) -> set[str]:
    """Return the revisions recorded in the database; an empty set when it has no tables."""
    if not inspect(connection).has_table("alembic_version"):
        return set()
    return set(connection.scalars(text("select version_num from alembic_version")))


def check_known(connection: Connection) -> set[str]:
    """Return the database's revisions. Raise ConfigError when this version does not have their migrations."""
    revisions = read_database_revisions(connection)
    if unknown := revisions - list_known_revisions()[0]:
        raise ConfigError(
            f"This version cannot use the database: its tables are at revision {', '.join(sorted(unknown))}, which is"
            " not among this version's migrations. Nothing was changed. If a newer version made it, run that version."
            " If a development version from before 0.1.0 made it, there is no upgrade: start a fresh"
            " installation (another PANEL_DATA_DIR, or an empty database), and run the commit that made the database to"
            " look up or export what you need from it."
        )
    return revisions


def check_current(connection: Connection) -> None:
    """Raise ConfigError unless the tables are at this version's newest revision."""
    revisions = check_known(connection)
    if not revisions and inspect(connection).has_table(NEWEST_TABLE):
        return  # created from the models, as tests and benchmarks do
    if not revisions:
        raise ConfigError("The database has no tables yet. Run: panel setup (or panel db upgrade)")
    if revisions != list_known_revisions()[1]:
        raise ConfigError("The tables are those of an older version. Run: panel db upgrade")
