"""The cache of an account's metrics, in a real Redis."""

import gzip

import pytest
from sqlalchemy import delete

from panel.core import context
from panel.core.db import session
from panel.models import ResourceGrant
from panel.ratelimit import windows
from panel.services.metrics import export
from panel.services.metrics.export import ACCOUNT_CACHE_SECONDS
from tests.support.rate_limit_clock import connect_rate_limits
from tests.support.redis_server import RedisServer
from tests.support.team import VIEW_PERMISSIONS, add_member  # noqa: F401  (fixtures)

pytestmark = pytest.mark.processes
PATH = "/api/metrics"


@pytest.fixture
def redis(tmp_path, rolled_back_app, monkeypatch):
    monkeypatch.setattr(windows, "REDIS_TIMEOUT_SECONDS", 60)  # avoids timeouts on a slow machine
    server = RedisServer(tmp_path)
    connect_rate_limits(server.url)
    yield server
    connect_rate_limits("")
    context.current().cached_exports.clear()
    server.kill()


@pytest.mark.parametrize("is_other_process", [False, True])
def test_account_metrics_are_cached_for_ten_seconds(api_as, redis, add_measured, measure, is_other_process):
    """MET-25, MET-26: for all web processes; the metrics of one instance are not cached."""
    instance = add_measured()
    bodies = [api_as("owner", "GET", PATH).data]
    client = context.current().rate_limits.redis.client
    (key,) = client.keys("panel:metrics-export:*")
    assert (ACCOUNT_CACHE_SECONDS - 5) * 1000 < client.pttl(key) <= ACCOUNT_CACHE_SECONDS * 1000 == 10_000
    measure(instance, cpu_percent=77.0)
    if is_other_process:
        context.current().cached_exports.clear()
    bodies.append(api_as("owner", "GET", PATH).data)
    assert bodies[0] == bodies[1]
    assert b"} 77\n" in api_as("owner", "GET", f"{PATH}/instances/{instance.id}").data
    client.delete(key)  # as after ten seconds
    assert b"} 77\n" in api_as("owner", "GET", PATH).data


def test_cache_is_separate_for_each_view(api_as, redis, add_member, add_measured):
    """MET-17, TX-03: in both orders; what was taken from a member is not shown from the cache."""
    chosen, other = add_measured(), add_measured()
    add_member("chooser", VIEW_PERMISSIONS, reach="chosen", grants=[chosen])
    for callers in (("owner", "chooser"), ("chooser", "owner")):
        for key in (client := context.current().rate_limits.redis.client).keys("panel:metrics-export:*"):
            client.delete(key)
        texts = {caller: api_as(caller, "GET", PATH).text for caller in (*callers, *callers)}
        assert chosen.id in texts["owner"]
        assert other.id in texts["owner"]
        assert chosen.id in texts["chooser"]
        assert other.id not in texts["chooser"]


def test_instances_taken_from_member_leave_cached_metrics(api_as, redis, add_member, add_measured):
    chosen = add_measured()
    member = add_member("chooser", VIEW_PERMISSIONS, reach="chosen", grants=[chosen])
    assert chosen.id in api_as("chooser", "GET", PATH).text
    session.execute(delete(ResourceGrant).where(ResourceGrant.member_id == member.id))
    session.commit()
    assert chosen.id not in api_as("chooser", "GET", PATH).text


def test_processes_that_build_at_the_same_time_answer_the_same(api_as, redis, cast, add_measured, monkeypatch):
    add_measured()
    render, client = export.render, context.current().rate_limits.redis.client

    def render_while_another_process_stores(rows):
        client.set(f"panel:metrics-export:{cast.owner.id}", gzip.compress(b"# of another process\n"))
        return render(rows)

    monkeypatch.setattr(export, "render", render_while_another_process_stores)
    for _ in range(2):
        assert api_as("owner", "GET", PATH).data == b"# of another process\n"


def test_lost_redis_leaves_metrics_uncached(api_as, redis, add_measured, measure):
    """MET-15"""
    instance = add_measured()
    assert api_as("owner", "GET", PATH).status_code == 200
    redis.kill()
    measure(instance, cpu_percent=77.0)
    assert b"} 77\n" in api_as("owner", "GET", PATH).data
