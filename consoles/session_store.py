"""The console server and the database: finds the target of a session, records what became of it, and closes consoles
that are no longer allowed."""

import queue
import threading
import time

import structlog
from sqlalchemy.exc import SQLAlchemyError

from consoles import close_codes
from panel.auth import permissions
from panel.core.db import session
from panel.core.errors import Problem, Unavailable
from panel.core.messages import message
from panel.services import consoles

log = structlog.get_logger()

PREPARE_TIMEOUT_SECONDS = 20
"""Seconds a worker has to prepare the machine's side, the same as for a shell. It may have to reconnect to Redis
first."""

PREPARE_POLL_INTERVAL_SECONDS = 0.1
RENOTIFY_AFTER_SECONDS = 1.5
"""Seconds after which the worker is notified again, in case the message was lost; nothing else does that here."""

REVOCATION_INTERVAL_SECONDS = 2.0
"""Seconds between two checks which consoles may stay open."""

SEEN_INTERVAL_SECONDS = 15.0
"""Seconds between two records of which consoles are open."""

SESSIONS_PER_BATCH = 50


class SessionStore:
    """Runs two threads of its own, so that the event loop never waits for the database."""

    def __init__(self, app):
        self.app, self.reports, self.stop_requested = app, queue.SimpleQueue(), threading.Event()
        self.console_server = self.last_seen_at = None

    def start(self, console_server):
        """Start both threads. `console_server` is a `server.ConsoleServer`."""
        self.console_server, self.last_seen_at = console_server, 0.0
        threading.Thread(target=self.run_report_writer, name="console-report-writer", daemon=True).start()
        threading.Thread(target=self.run_revocation_checks, name="console-revocation", daemon=True).start()

    def stop(self):
        """Return when all reports are written, after at most five seconds."""
        self.stop_requested.set()
        self.reports.put(None)
        deadline = time.monotonic() + 5
        while not self.reports.empty() and time.monotonic() < deadline:
            time.sleep(0.05)

    def find_target(self, session_id):
        """Return the machine's side as fields of a target. Waits for the worker that prepares it; raises
        `Unavailable`."""
        started_at = notified_at = time.monotonic()
        while (now := time.monotonic()) < started_at + PREPARE_TIMEOUT_SECONDS:
            with self.app.app_context():
                if target := consoles.find_target(session_id):
                    return target
                if now > notified_at + RENOTIFY_AFTER_SECONDS:
                    notified_at = now
                    consoles.enqueue_vnc_preparation(session_id)
            time.sleep(PREPARE_POLL_INTERVAL_SECONDS)
        raise Unavailable(message("The hypervisor does not respond."))

    def add_report(self, report):
        self.reports.put(report)

    def run_report_writer(self):
        while (report := self.reports.get()) is not None:
            while not self.write_report(report) and not self.stop_requested.wait(2):
                log.warning("console_report_postponed", report_event=report["event"])

    def write_report(self, report):
        """Return whether the report needs no retry: it was written, or dropped because of an error other than the
        database's."""
        try:
            with self.app.app_context():
                record_report(report)
                session.commit()
        except SQLAlchemyError:
            return False
        except Exception:
            log.exception("console_report_lost")
        return True

    def run_revocation_checks(self):
        while not self.stop_requested.wait(REVOCATION_INTERVAL_SECONDS):
            try:
                with self.app.app_context():
                    self.check_sessions()
            except (SQLAlchemyError, Problem) as error:
                log.warning("console_revocation_postponed", error=str(error))
            except Exception:
                log.exception("console_revocation_failed")

    def check_sessions(self):
        """Close consoles that are no longer allowed, and record which are open. In batches, so that memory use does not
        grow with their number."""
        ids = [stream.labels["session"] for stream in self.console_server.list_streams()]
        is_due = time.monotonic() >= self.last_seen_at
        for batch in (ids[start : start + SESSIONS_PER_BATCH] for start in range(0, len(ids), SESSIONS_PER_BATCH)):
            for session_id, reason in consoles.find_sessions_to_close(batch, permissions.may_open_consoles).items():
                self.console_server.close_streams({"session": session_id}, close_codes.CLOSED.with_message(reason))
            if is_due:
                consoles.record_alive(batch)
                self.last_seen_at = time.monotonic() + SEEN_INTERVAL_SECONDS
        session.commit()


def record_report(report):
    session_id = report["labels"]["session"]
    if report["event"] == "opened":
        return consoles.record_opened(session_id, report["host_key"])
    outcome = {name: report[name] for name in ("reason", "message", "bytes_in", "bytes_out", "host_key")}
    return consoles.record_ended(session_id, **outcome)
