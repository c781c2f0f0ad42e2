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

WATCH_INTERVAL_SECONDS = 2.0
"""Seconds between two checks which consoles may stay open."""

SEEN_INTERVAL_SECONDS = 15.0
"""Seconds between two records of which consoles are open."""

SESSIONS_PER_BATCH = 50


class SessionStore:
    """Runs two threads of its own, so that the event loop never waits for the database."""

    def __init__(self, app):
        self.app, self.facts, self.ended = app, queue.SimpleQueue(), threading.Event()
        self.carried = self.last_seen_at = None

    def start(self, server):
        """Start both threads. `server` is the `server.ConsoleServer`."""
        self.carried, self.last_seen_at = server, 0.0
        for loop in (self.write, self.watch):
            threading.Thread(target=loop, name=f"console-{loop.__name__}", daemon=True).start()

    def stop(self):
        """Return when all reported facts are written, after at most five seconds."""
        self.ended.set()
        self.facts.put(None)
        deadline = time.monotonic() + 5
        while not self.facts.empty() and time.monotonic() < deadline:
            time.sleep(0.05)

    def find(self, session_id):
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

    def report(self, facts):
        self.facts.put(facts)

    def write(self):
        while (facts := self.facts.get()) is not None:
            while not self.written(facts) and not self.ended.wait(2):
                log.warning("console_event_write_postponed", console_event=facts["event"])

    def written(self, facts):
        """Return whether the fact is done with: True when it was written, or dropped because of an error other than the
        database's."""
        try:
            with self.app.app_context():
                record_fact(facts)
                session.commit()
        except SQLAlchemyError:
            return False
        except Exception:
            log.exception("console_facts_lost")
        return True

    def watch(self):
        while not self.ended.wait(WATCH_INTERVAL_SECONDS):
            try:
                with self.app.app_context():
                    self.look()
            except (SQLAlchemyError, Problem) as error:
                log.warning("console_watch_postponed", error=str(error))
            except Exception:
                log.exception("console_watch_failed")

    def look(self):
        """Close consoles that are no longer allowed, and record which are open. In batches, so that memory use does not
        grow with their number."""
        ids = [stream.labels["session"] for stream in self.carried.now()]
        is_due = time.monotonic() >= self.last_seen_at
        for batch in (ids[start : start + SESSIONS_PER_BATCH] for start in range(0, len(ids), SESSIONS_PER_BATCH)):
            for session_id, reason in consoles.find_sessions_to_close(batch, permissions.may_open_consoles).items():
                self.carried.close({"session": session_id}, close_codes.CLOSED.with_message(reason))
            if is_due:
                consoles.record_alive(batch)
                self.last_seen_at = time.monotonic() + SEEN_INTERVAL_SECONDS
        session.commit()


def record_fact(facts):
    session_id = facts["labels"]["session"]
    if facts["event"] == "opened":
        return consoles.record_opened(session_id, facts["host_key"])
    outcome = {name: facts[name] for name in ("reason", "message", "bytes_in", "bytes_out", "host_key")}
    return consoles.record_ended(session_id, **outcome)
