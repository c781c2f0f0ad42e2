"""The write probe: a thread writes a row every few seconds, so readiness checks do not wait for the database."""

import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Self, cast

import structlog
from sqlalchemy import Connection, CursorResult, Engine, insert, make_url, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from panel.core import clock
from panel.core.config import Config, ConfigError
from panel.core.database_errors import find_outage
from panel.core.db import session
from panel.core.startup_checks import check_installation
from panel.models import InstallationValue

if TYPE_CHECKING:
    from flask import Flask

log = structlog.get_logger()

PROBE_INTERVAL_SECONDS = 10
PROBE_STALE_SECONDS = 40
"""Age from which the last result means that the thread hangs. Waiting for SQLite's lock takes at most 15 s."""

MIN_FREE_BYTES = 256 * 1024
"""With less free space the probe's row may still fit, but not the writes of requests."""

PROBE_ROW = "write_probe"
OK_STATE = "ok"


class DatabaseProbe:
    """The probe of one process and its last result: `ok`, a problem, or None before the first attempt."""

    def __init__(self, app: "Flask") -> None:
        self.app, self.tried_at = app, 0.0
        self.result: str | None = None
        self.is_checked = True
        self.stopped = threading.Event()

    def start(self, *, is_checked: bool = True) -> Self:
        """Start the thread. `is_checked`: the process has already passed the startup checks."""
        self.is_checked = is_checked
        threading.Thread(target=self.run, name="database-probe", daemon=True).start()
        return self

    def run(self) -> None:
        while not self.stopped.is_set():
            self.try_write()
            self.stopped.wait(PROBE_INTERVAL_SECONDS)

    def state(self) -> str:
        """Return `ok` or the problem."""
        result = self.result or self.try_write()  # first call, and no thread runs
        if result == OK_STATE and time.monotonic() - self.tried_at > PROBE_STALE_SECONDS and self.is_running():
            return "does not answer"
        return result

    def is_running(self) -> bool:
        return any(thread.name == "database-probe" for thread in threading.enumerate())

    def try_write(self) -> str:
        previous = self.result
        result = self.write()
        self.result, self.tried_at = result, time.monotonic()
        if result != OK_STATE and result != previous:
            log.error("database_unavailable", problem=result)
        elif result == OK_STATE and previous not in (OK_STATE, None):
            log.info("database_available")
        if result == OK_STATE and not self.is_checked:
            self.check_late()
        return result

    def write(self) -> str:
        try:
            with self.app.app_context():
                write_probe_row(session.get_bind())
                return find_disk_problem(self.app.extensions["config"]) or OK_STATE
        except SQLAlchemyError as error:
            outage = find_outage(error)
            if outage is None:
                log.warning("database_probe_failed", detail=str(error)[:300])
            return f"cannot be written ({outage.problem})" if outage else "cannot be written"

    def check_late(self) -> None:
        """Run the startup checks that were postponed because the database was unavailable. Exit when they fail."""
        try:
            self.is_checked = check_installation(self.app)
        except ConfigError as error:
            log.critical("process_must_not_run", reason=str(error))
            os._exit(1)


def write_probe_row(bind: Engine | Connection) -> None:
    """Write and commit the probe row in a separate transaction."""
    with Session(bind, join_transaction_mode="create_savepoint") as probe_session:
        statement = update(InstallationValue).where(InstallationValue.name == PROBE_ROW)
        now = clock.now().isoformat()
        try:
            if not cast(CursorResult, probe_session.execute(statement.values(value=now))).rowcount:
                probe_session.execute(insert(InstallationValue).values(name=PROBE_ROW, value=now))
            probe_session.commit()
        except IntegrityError:
            probe_session.rollback()  # another process inserted the row at the same time


def find_disk_problem(config: Config) -> str | None:
    """Return the problem when a SQLite database's disk is nearly full, else None. The probe's small row may still fit
    then."""
    if not config.is_sqlite:
        return None
    directory = os.path.dirname(make_url(config.database_url).database or "") or "."
    free = shutil.disk_usage(directory).free
    return "cannot be written (disk full)" if free < MIN_FREE_BYTES else None


def get_probe(app: "Flask") -> DatabaseProbe:
    """Return the probe of this process's application."""
    return app.extensions.setdefault("database_probe", DatabaseProbe(app))
