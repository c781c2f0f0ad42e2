"""Changes for open pages: one stream of server-sent events for each browser, fed by what was committed.

One thread receives changes from Redis (panel/core/live_changes.py) and sends them to the streams whose viewers may see
them; changes of a tenth of a second go out together. Another one looks up viewers when a stream opens and again every
two seconds, and which rows members with chosen resources may see. A third one writes to the browsers. An event names
tables and ids; the page then reloads what it shows of them, with all checks of a page.

A stream starts at the time when its page was made (`since`), so that nothing is missed between the two. Without Redis
or the database, streams end: pages then poll.
"""

import queue
import socket
import threading
import time
from collections import defaultdict, deque
from contextlib import closing, suppress
from itertools import takewhile

import orjson
import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy.exc import SQLAlchemyError

from consoles.event_loop import EventLoop
from consoles.event_stream import EventStream
from panel.auth import live_viewers
from panel.core import live_changes

log = structlog.get_logger()

MAX_STREAMS, MAX_STREAMS_PER_SESSION = 10_000, 30
BATCH_SECONDS = 0.1
"""How long changes are collected after the first one."""
COMMENT_INTERVAL_SECONDS = 15
VIEWER_CHECK_SECONDS, VIEWER_TRUST_SECONDS = 2.0, 5.0
"""Seconds between two checks of viewers, and how long a check counts when the database cannot be asked."""
SESSIONS_PER_QUERY = 500
HISTORY_SECONDS, MAX_HISTORY = 60, 20_000
"""How far back a new stream may begin."""
CLOCK_DIFFERENCE_MS = 1000
"""How far the clock of a web process may be ahead."""
REDIS_PING_SECONDS, REDIS_SILENCE_SECONDS, RECONNECT_SECONDS = 5.0, 15.0, 1.0
MAX_IDS_PER_EVENT = 200
"""Above this number, an event names only the tables."""


class LiveUpdates:
    def __init__(self, app, redis_url, max_streams=MAX_STREAMS):
        self.app, self.redis_url, self.max_streams = app, redis_url, max_streams
        self.event_loop = EventLoop(ping_interval_seconds=COMMENT_INTERVAL_SECONDS)
        self.lock = threading.RLock()
        self.streams, self.operator_streams, self.streams_by_account = set(), set(), defaultdict(set)
        self.history = deque()
        """Pairs of a time (ms) and a change."""
        self.history_start = None
        """Since when the history is complete (ms); None while Redis does not answer."""
        self.opening = deque()
        """Streams whose viewers are not known yet."""
        self.viewer_jobs = queue.SimpleQueue()
        self.viewers_checked_at = time.monotonic()
        self.last_event_id = 0
        self.stop_requested = threading.Event()

    def start(self):
        self.event_loop.start()
        for name, function in (("live-changes", self.receive_changes), ("live-viewers", self.run_viewer_jobs)):
            threading.Thread(target=function, name=name, daemon=True).start()

    def stop(self):
        self.stop_requested.set()
        self.event_loop.stop(None, 0)
        self.event_loop.join(3)

    # --- streams

    def find_refusal(self, session_id):
        """Return a reason why no further stream of this session may open, or None."""
        with self.lock:
            if self.history_start is None:
                return "no_changes"
            own = sum(stream.session_id == session_id for stream in self.streams)
            is_busy = len(self.streams) >= self.max_streams or own >= MAX_STREAMS_PER_SESSION
            return "busy" if is_busy else None

    def add_stream(self, connection, session_id, since):
        stream = EventStream(socket.socket(fileno=connection.detach()), session_id, since, self.remove_stream)
        with self.lock:
            self.streams.add(stream)
            self.opening.append(stream)
        self.viewer_jobs.put((self.open_streams, []))

    def open_streams(self, streams):
        """Open all streams that wait, and add them to `streams`."""
        with self.lock:
            streams += self.opening
            self.opening.clear()
        viewers = self.load_viewers(streams)
        for stream in streams:
            self.open_stream(stream, viewers.get(stream.session_id))

    def open_stream(self, stream, viewer):
        with self.lock:
            self.event_loop.add_stream(stream)
            if viewer is None or self.history_start is None:
                self.event_loop.call_soon(stream.abort)
                return
            self.set_viewer(stream, viewer)
            first = stream.since - CLOCK_DIFFERENCE_MS
            is_complete = first >= self.history_start
            recent = takewhile(lambda entry: entry[0] >= first, reversed(self.history))
            missed = dict.fromkeys(change for _, change in recent) if is_complete else {}
            self.event_loop.call_soon(stream.send, self.build_event("ready" if is_complete else "reload", []))
        self.send_looked_up([stream], missed)

    def set_viewer(self, stream, viewer):
        """Set whose stream it is. The lock is held."""
        self.forget_viewer(stream)
        stream.viewer = viewer
        for account_id in list_accounts(viewer):
            self.streams_by_account[account_id].add(stream)
        if viewer.operator_permissions:
            self.operator_streams.add(stream)

    def forget_viewer(self, stream):
        if stream.viewer:
            for account_id in list_accounts(stream.viewer):
                self.streams_by_account[account_id].discard(stream)
                if not self.streams_by_account[account_id]:
                    del self.streams_by_account[account_id]
            self.operator_streams.discard(stream)
            stream.viewer = None

    def remove_stream(self, stream):
        with self.lock:
            self.forget_viewer(stream)
            self.streams.discard(stream)

    def list_streams(self):
        with self.lock:
            return list(self.streams)

    def end_streams(self, streams):
        for stream in streams:
            self.event_loop.call_soon(stream.abort)

    # --- viewers, on a thread that may wait for the database

    def run_viewer_jobs(self):
        next_check_at = 0.0
        while not self.stop_requested.is_set():
            with suppress(queue.Empty):
                job, streams = self.viewer_jobs.get(timeout=max(0.01, next_check_at - time.monotonic()))
                if not self.run_viewer_job(job, streams):
                    self.end_streams(streams)
            if (now := time.monotonic()) >= next_check_at:
                next_check_at = now + VIEWER_CHECK_SECONDS
                if self.run_viewer_job(self.check_viewers):
                    self.viewers_checked_at = now

    def run_viewer_job(self, job, *args):
        """Return whether the job succeeded."""
        try:
            job(*args)
        except SQLAlchemyError as error:
            log.warning("live_viewers_unknown", error=str(error))
            return False
        except Exception:
            log.exception("live_viewers_failed")
            return False
        return True

    def check_viewers(self):
        """End the streams of sessions that have ended, and note changed rights of the others."""
        streams = [stream for stream in self.list_streams() if stream.viewer]
        viewers = self.load_viewers(streams)
        with self.lock:
            for stream in streams:
                viewer = viewers.get(stream.session_id)
                if viewer is None:
                    self.event_loop.call_soon(stream.abort)
                elif stream in self.streams and viewer != stream.viewer:
                    self.set_viewer(stream, viewer)

    def load_viewers(self, streams):
        """Return the viewers of the streams' sessions."""
        ids, viewers = list({stream.session_id for stream in streams}), {}
        for start in range(0, len(ids), SESSIONS_PER_QUERY):
            with self.app.app_context():
                viewers |= live_viewers.load_viewers(ids[start : start + SESSIONS_PER_QUERY])
        return viewers

    def send_looked_up(self, streams, changes):
        """Send changes to streams of one viewer, whose rows have to be looked up in the database."""
        viewer = streams[0].viewer
        if viewer and changes:
            with self.app.app_context():
                visible = viewer.list_visible(changes)
            self.send_changes(streams, visible)

    # --- changes

    def receive_changes(self):
        while not self.stop_requested.is_set():
            try:
                with closing(connect(self.redis_url)) as redis, closing(redis.pubsub()) as subscription:
                    subscription.subscribe(live_changes.get_channel(redis))
                    self.read_subscription(subscription)
            except (RedisError, OSError) as error:
                log.warning("live_changes_wait_for_redis", error=str(error))
            except Exception:
                log.exception("live_changes_failed")
            with self.lock:
                self.history_start = None
                self.history.clear()
            self.end_streams(self.list_streams())
            self.stop_requested.wait(RECONNECT_SECONDS)

    def read_subscription(self, subscription):
        heard_at = pinged_at = time.monotonic()
        while not self.stop_requested.is_set():
            messages = read_messages(subscription)
            now = time.monotonic()
            if now - self.viewers_checked_at > VIEWER_TRUST_SECONDS:
                self.end_streams(self.list_streams())
            if messages:
                heard_at = now
            elif now - heard_at > REDIS_SILENCE_SECONDS:
                raise TimeoutError("Redis is silent.")
            if now - pinged_at > REDIS_PING_SECONDS:
                subscription.ping()
                pinged_at = now
            if any(message["type"] == "subscribe" for message in messages):
                with self.lock:
                    self.history_start = get_milliseconds()
            texts = [message["data"] for message in messages if message["type"] == "message"]
            if texts:
                self.dispatch(dict.fromkeys(change for text in texts for change in live_changes.parse(text)))

    def dispatch(self, changes):
        """Send the changes to all streams whose viewers may see them."""
        by_account = defaultdict(list)
        for change in changes:
            by_account[change.account_id].append(change)
        with self.lock:
            self.remember(changes)
            streams = set(self.operator_streams)
            for account_id in by_account:
                streams |= self.streams_by_account.get(account_id, set())
            streams_by_viewer = defaultdict(list)
            for stream in streams:
                streams_by_viewer[get_view(stream.viewer)].append(stream)
        for group in streams_by_viewer.values():
            viewer = group[0].viewer
            if viewer is None:
                continue
            accounts = list_accounts(viewer)
            own = changes if viewer.operator_permissions else [change for id_ in accounts for change in by_account[id_]]
            if viewer.is_restricted:
                self.viewer_jobs.put((lambda streams, own=own: self.send_looked_up(streams, own), group))
            else:
                self.send_changes(group, viewer.list_visible(own))

    def remember(self, changes):
        now = get_milliseconds()
        self.history.extend((now, change) for change in changes)
        while self.history and (len(self.history) > MAX_HISTORY or self.history[0][0] < now - HISTORY_SECONDS * 1000):
            moment, _ = self.history.popleft()
            self.history_start = max(self.history_start or 0, moment + 1)

    def send_changes(self, streams, changes):
        if not changes:
            return
        rows = [[change.table, change.id, change.related_id] for change in changes]
        if len(rows) > MAX_IDS_PER_EVENT:
            rows = [[table, "", ""] for table in dict.fromkeys(change.table for change in changes)]
        self.event_loop.call_soon(send_to_all, streams, self.build_event("change", rows))

    def build_event(self, name, data):
        """Return an event whose id is the time (ms), and larger than that of the event before."""
        with self.lock:
            self.last_event_id = max(get_milliseconds(), self.last_event_id + 1)
            return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.last_event_id, name.encode(), orjson.dumps(data))


def send_to_all(streams, event):
    for stream in streams:
        stream.run_guarded(stream.send, event)


def list_accounts(viewer):
    """Return the accounts whose changes the viewer may get: the owner of the resources and the person."""
    return dict.fromkeys((viewer.access.id, viewer.access.person_id))


def get_view(viewer):
    """Return what streams have in common that get the same changes."""
    if viewer is None or not viewer.is_restricted:
        return viewer and (
            viewer.access.id,
            viewer.access.person_id,
            viewer.access.permissions,
            viewer.operator_permissions,
        )
    return viewer


def get_milliseconds():
    return int(time.time() * 1000)


def connect(redis_url):
    return Redis.from_url(redis_url, socket_connect_timeout=2, socket_timeout=5, retry=Retry(NoBackoff(), 0))


def read_messages(subscription):
    """Wait for a message, at most a second, and return it with those that follow within BATCH_SECONDS."""
    first = subscription.get_message(timeout=1.0)
    messages = [first] if first else []
    deadline = time.monotonic() + BATCH_SECONDS
    while messages and (seconds_left := deadline - time.monotonic()) > 0:
        if message := subscription.get_message(timeout=seconds_left):
            messages.append(message)
    return messages
