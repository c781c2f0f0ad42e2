"""The console process and the rows: where a session leads, what became of it, and what must be closed."""

import queue
import threading
import time

import structlog
from sqlalchemy.exc import SQLAlchemyError

from consoles import close_codes
from panel.auth import permissions
from panel.core.db import session
from panel.core.errors import Problem, Unavailable
from panel.services import consoles

log = structlog.get_logger()

PREPARE_TIMEOUT_SECONDS = 20
"""Seconds a worker has to prepare the machine's side, as many as for a shell. It may have to find Redis again first."""

PREPARE_POLL_INTERVAL_SECONDS = 0.1
RENOTIFY_AFTER_SECONDS = 1.5
"""Seconds after which the bell for that worker was lost: nobody else rings it again."""

WATCH_INTERVAL_SECONDS = 2.0
"""Seconds between two looks at what may stay open."""

SEEN_INTERVAL_SECONDS = 15.0
"""Seconds between two notes of what is open."""

SESSIONS_PER_BATCH = 50


class SessionStore:
    """Kept by two threads of its own, so that nothing that carries bytes waits for the database."""

    def __init__(self, app):
        self.app, self.facts, self.ended = app, queue.SimpleQueue(), threading.Event()
        self.carried = self.last_seen_at = None

    def start(self, server):
        """`carried` is a `process.Consoles`."""
        self.carried, self.last_seen_at = server, 0.0
        for part in (self.write, self.watch):
            threading.Thread(target=part, name=f"console-{part.__name__}", daemon=True).start()

    def stop(self):
        """Returns when all that was told is written, at most some seconds later."""
        self.ended.set()
        self.facts.put(None)
        until = time.monotonic() + 5
        while not self.facts.empty() and time.monotonic() < until:
            time.sleep(0.05)

    def find(self, session_id):
        """The machine's side, as fields of a target. Waits for the worker that prepares it; raises `Unavailable`."""
        began = rung = time.monotonic()
        while (now := time.monotonic()) < began + PREPARE_TIMEOUT_SECONDS:
            with self.app.app_context():
                if found := consoles.find_target(session_id):
                    return found
                if now > rung + RENOTIFY_AFTER_SECONDS:
                    rung = now
                    consoles.enqueue_vnc_preparation(session_id)
            time.sleep(PREPARE_POLL_INTERVAL_SECONDS)
        raise Unavailable("The machine's host does not answer.")

    def report(self, facts):
        self.facts.put(facts)

    def write(self):
        while (facts := self.facts.get()) is not None:
            while not self.written(facts) and not self.ended.wait(2):
                log.warning("console_facts_wait", event_was=facts["event"])

    def written(self, facts):
        """Whether it is in the database. A fact that cannot be written for another reason than that is dropped."""
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
                log.warning("console_watch_waits", error=str(error))
            except Exception:
                log.exception("console_watch_failed")

    def look(self):
        """Closes what is no longer allowed, and notes what is carried. Some at a time, so that the memory for it does
        not grow with all of them."""
        ids = [line.labels["session"] for line in self.carried.now()]
        named = time.monotonic() >= self.last_seen_at
        for some in (ids[start : start + SESSIONS_PER_BATCH] for start in range(0, len(ids), SESSIONS_PER_BATCH)):
            for session_id, because in consoles.sessions_to_close(some, permissions.may_open_consoles).items():
                self.carried.close({"session": session_id}, close_codes.CLOSED.with_message(because))
            if named:
                consoles.record_alive(some)
                self.last_seen_at = time.monotonic() + SEEN_INTERVAL_SECONDS
        session.commit()


def record_fact(facts):
    session_id = facts["labels"]["session"]
    if facts["event"] == "opened":
        return consoles.record_opened(session_id, facts["host_key"])
    told = {name: facts[name] for name in ("reason", "message", "bytes_in", "bytes_out", "host_key")}
    return consoles.record_ended(session_id, **told)
