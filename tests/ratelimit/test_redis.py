"""Rate limits in Redis: shared by processes, during an outage, and after Redis returns."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from panel.core import context
from panel.ratelimit import windows
from panel.services import settings
from tests.support.rate_limit_clock import connect_rate_limits
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.processes


@pytest.fixture
def redis(tmp_path, rolled_back_app, monkeypatch):
    monkeypatch.setattr(windows, "REDIS_TIMEOUT_SECONDS", 60)  # avoids timeouts on a slow machine
    server = RedisServer(tmp_path)
    connect_rate_limits(server.url)
    yield server
    connect_rate_limits("")
    server.kill()


def count_hits(count, maximum=3):
    return [windows.count_use("test", "key", maximum).allowed for _ in range(count)]


def test_processes_share_counts_in_redis(redis):
    assert count_hits(2) == [True, True]
    connect_rate_limits(redis.url)  # as another process would
    window = windows.count_use("test", "key", 3)
    assert window[:2] == (True, 0)
    assert 1 <= window.reset <= 61
    refused = windows.count_use("test", "key", 3)
    assert (refused.allowed, refused.remaining) == (False, 0)
    assert 1 <= refused.reset <= 61


def test_parallel_hits_do_not_exceed_limit(redis):
    windows.count_use("test", "first", 50)  # loads the scripts into Redis
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: windows.count_use("test", "many", 50).allowed, range(200)))
    assert sum(results) == 50


def test_requests_are_counted_locally_without_redis(redis, api_as, monkeypatch):
    warnings = []
    monkeypatch.setattr(
        windows, "log", type("Log", (), {"warning": lambda *args, **options: warnings.append(args[1])})()
    )
    context.current().rate_limits.last_warning_at = float("-inf")
    settings.update({"rate_limit_requests": 3})
    assert api_as("owner", "GET", "/api/connect").status_code == 200
    redis.kill()
    assert [api_as("owner", "GET", "/api/connect").status_code for _ in range(4)] == [200, 200, 200, 429]
    context.current().rate_limits.circuit_open_until = 0  # the next request tries Redis again
    assert api_as("owner", "GET", "/api/connect").status_code == 429
    assert warnings == ["rate_limits_counted_in_process"]

    redis.start()
    context.current().rate_limits.circuit_open_until = 0
    answers = [api_as("owner", "GET", "/api/connect") for _ in range(4)]  # Redis lost all data, also its scripts
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]


def test_silent_redis_delays_only_one_request(rolled_back_app, monkeypatch):
    """A server that accepts connections and never answers."""
    calls, count_use = [], windows.RedisWindow.count_use
    monkeypatch.setattr(windows.RedisWindow, "count_use", lambda *args: calls.append(args) or count_use(*args))
    monkeypatch.setattr(windows, "REDIS_RETRY_SECONDS", 600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connect_rate_limits(f"redis://127.0.0.1:{silent.getsockname()[1]}")
        assert count_hits(4) == [True, True, True, False]
    assert len(calls) == 1
    connect_rate_limits("")


def test_redis_window_slides(redis):
    """The hits of the previous window count in proportion to its part within the last minute."""
    take = context.current().rate_limits.redis.count_use
    client = context.current().rate_limits.redis.client
    assert [take("slide", 4, 60)[0] for _ in range(4)] == [True] * 4
    client.pexpire("panel:hits:slide", 44_000)  # as 76 s later
    is_allowed, previous, previous_left, current, current_left, _ = take("slide", 4, 60)
    assert (is_allowed, previous, current) == (True, 4, 1)
    assert 30 < previous_left <= 44
    assert 90 < current_left <= 104
    assert [take("slide", 4, 60)[0] for _ in range(3)] == [
        True,
        False,
        False,
    ]  # 4 * 44 / 60 is 2, and so is 4 * 31 / 60


def test_hit_reads_key_of_redis(redis):
    context.current().rate_limits.redis.client.set("panel:test", "value")
    assert windows.count_use("test", "key", 3, read_key="panel:test").read == b"value"
    assert windows.count_use("test", "key", 3, read_key="panel:none").read is None
    assert windows.count_use("test", "key", 3).read is None
