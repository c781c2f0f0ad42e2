"""Screens of instances, by both APIs."""

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import consoles, settings
from panel.workflows import waiting
from tests.conftest import run_queued_calls
from tests.instances.consoles.conftest import URL, console_sessions, created_session
from worker.nodes import NodeSpec, connect

SCREENS = [
    ("owner", "GET", "/api/instance/{}/novnc"),
    ("owner", "POST", "/api/instance/{}/console-session"),
    ("admin", "GET", "/api/v1/instance/{}/novnc"),
    ("admin", "POST", "/api/v1/instance/{}/console-session"),
]


@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_a_vnc_session_is_created(api_as, running, run_tasks, who, method, path):
    """CON-01, CON-02, CON-03, CON-04, CON-16, CON-25, CON-26."""
    before = clock.now()
    answer = api_as(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))
    found = created_session(answer, who)
    assert found.keys() == {"url", "console_url", "password", "expires_at"}
    url = urlsplit(found["url"])
    assert (url.scheme, url.netloc, url.path) == ("ws", "panel.example.com:8000", "/vnc/")
    [secret] = parse_qs(url.query)["session"]
    assert found["console_url"] == f"{URL}/console/{secret}"
    assert len(found["password"]) == 8
    lasts = datetime.fromisoformat(found["expires_at"]) - before
    assert timedelta(seconds=60) <= lasts < timedelta(seconds=70)
    assert answer.headers["Cache-Control"] == "no-store"
    run_tasks()
    [row] = console_sessions()
    assert (row.host, row.ssh_jump, row.error) == ("127.0.0.1", None, None)
    assert row.port
    assert row.node_password != found["password"]


def test_sockets_are_encrypted_where_the_panel_is(api_as, running, set_public_url, inline_workers):
    """CON-03, SSH-06."""
    set_public_url("https://panel.example.com/")
    assert (
        api_as("owner", "GET", f"/api/instance/{running.id}/novnc")
        .json["url"]
        .startswith("wss://panel.example.com/vnc/")
    )
    assert (
        api_as("owner", "GET", f"/api/instance/{running.id}/webssh")
        .json["ws_url"]
        .startswith("wss://panel.example.com/")
    )


@pytest.mark.parametrize("who", ["owner", "admin"])
@pytest.mark.parametrize(("seconds", "status"), [(10, 200), (600, 200), (9, 422), (601, 422), ("60", 422)])
def test_a_program_says_how_long_a_session_is_good(api_as, running, who, seconds, status):
    """CON-17, CON-18."""
    path = f"/api{'/v1' if who == 'admin' else ''}/instance/{running.id}/console-session"
    before = clock.now()
    answer = api_as(who, "POST", path, json={"expires_in": seconds})
    assert answer.status_code == status
    if status == 200:
        lasts = datetime.fromisoformat(created_session(answer, who)["expires_at"]) - before
        assert timedelta(seconds=seconds) <= lasts < timedelta(seconds=seconds + 10)
    else:
        assert "expires_in" in answer.json["errors"]
        assert console_sessions() == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://[::1]", "http://0.0.0.0", "http://[::]", "http://localhost", "http://127.9.9.9"],
)
@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_console_sessions_need_a_public_url(api_as, running, set_public_url, url, who, method, path):
    """CON-19, CON-20, CON-22, CON-24."""
    set_public_url(url)
    answer = api_as(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))
    assert (answer.status_code, answer.json["reason"]) == (503, "master_address_unknown")
    assert not {"url", "console_url", "password"} & set(answer.json)
    assert console_sessions() == []


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000", "http://192.168.1.2", "http://[fd00::7]", "https://h.example"])
def test_a_private_address_is_an_address(api_as, running, set_public_url, url):
    """CON-21."""
    set_public_url(url)
    assert api_as("owner", "GET", f"/api/instance/{running.id}/novnc").json["console_url"].startswith(f"{url}/console/")


def test_a_screen_that_cannot_be_opened_says_why(api_as, running, node, run_tasks):
    """CON-24, decision OP-08."""
    path = f"/api/instance/{running.id}/novnc"

    def reason(who="owner"):
        answer = api_as(who, "GET", path if who == "owner" else path.replace("/api/", "/api/v1/"))
        assert answer.status_code == 409
        assert answer.json["success"] is False
        return answer.json["reason"]

    instance = session.get(Instance, running.id)
    instance.enable_vnc = False
    session.commit()
    assert (reason(), reason("admin")) == ("vnc_disabled", "vnc_disabled")
    instance = session.get(Instance, running.id)
    instance.power = "off"
    session.commit()
    assert reason() == "not_running"
    session.get(Instance, running.id).suspended_reason = "admin"
    session.commit()
    assert (reason(), reason("admin")) == ("suspended", "not_running")
    assert console_sessions() == []


@pytest.mark.parametrize("path", ["novnc", "webssh", "ssh-session"])
def test_consoles_of_others_are_out_of_reach(api_as, running, path):
    """CON-27."""
    for who in ("outsider", "member"):
        assert api_as(who, "GET", f"/api/instance/{running.id}/{path}").status_code == 404
    assert api_as("viewer", "GET", f"/api/instance/{running.id}/{path}").status_code == 403
    assert console_sessions() == []


def test_console_sessions_have_a_rate_limit_of_their_own(api_as, running):
    """Decision NS-12."""
    settings.update({"rate_limit_consoles": 2})
    answers = [api_as("owner", "GET", f"/api/instance/{running.id}/novnc") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"consoles";q=2;w=60'
    assert api_as("owner", "GET", f"/api/instance/{running.id}").status_code == 200


def test_a_node_that_opens_no_screen_is_told_of(api_as, running, run_tasks, node):
    created_session(api_as("owner", "GET", f"/api/instance/{running.id}/novnc"))
    node.power_off(running.id)
    run_tasks()
    [row] = console_sessions()
    assert (row.port, row.error) == (None, "The machine is off.")


@pytest.fixture
def cluster_node(running, cast, run_tasks, inline_workers, rolled_back_app):
    """The instance's node, which belongs to a cluster that issues tickets for screens."""
    row = session.get(Hypervisor, cast.node.id)
    row.uri = "simulated://?tickets=1"
    session.commit()
    jobs.enqueue_call("worker.sync.node_sync.probe", row.id)
    run_tasks()
    spec = NodeSpec(row.id, row.name, row.driver, session.get(Hypervisor, row.id).uri)
    return connect(spec, rolled_back_app.extensions["config"].data_dir)


@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_a_node_whose_cluster_issues_no_ticket_opens_no_screen(api_as, running, cluster_node, who, method, path):
    """CON-23, CON-24."""
    cluster_node.fault("console", "no-ticket", 1)

    def create_session():
        return api_as(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))

    answer = create_session()
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    assert answer.json["success"] is False
    assert not {"url", "console_url", "password", "data"} & set(answer.json)
    assert console_sessions() == []
    assert created_session(create_session(), who)["password"]
    [row] = console_sessions()
    assert row.port


def test_the_pages_say_that_there_is_no_ticket(browser_as, running, cluster_node):
    """CON-23: nothing is created by the button either, nor by a page that opens its screen again."""
    cluster_node.fault("console", "no-ticket")
    sentence = "The console cannot be opened. The hypervisor&#39;s cluster issued no ticket for the console."
    for who, prefix in (("owner", ""), ("admin", "/admin")):
        answer = browser_as(who).post(f"{prefix}/instances/{running.id}/console")
        assert answer.status_code == 503
        assert sentence in answer.text
    assert console_sessions() == []


def test_a_cluster_that_is_silent_issues_no_ticket_either(api_as, running, cluster_node, monkeypatch):
    """CON-23: also when nobody says so. A worker that is late finds nothing to open."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    answer = api_as("owner", "GET", f"/api/instance/{running.id}/novnc")
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    run_queued_calls()
    session.expire_all()
    assert console_sessions() == []


def test_nobody_waits_where_no_ticket_is_needed(api_as, running, monkeypatch):
    """CON-23: the session is there before any worker has heard of it."""
    monkeypatch.setattr(waiting, "wait_for", None)
    created_session(api_as("owner", "GET", f"/api/instance/{running.id}/novnc"))
    [row] = console_sessions()
    assert row.port is None


def test_a_repeated_notification_opens_a_vnc_console_once(api_as, running, run_tasks, node):
    """The password that somebody may be about to use stays."""
    created_session(api_as("owner", "GET", f"/api/instance/{running.id}/novnc"))
    [row] = console_sessions()
    run_tasks()
    before = (row.port, row.node_password)
    node.fault("console", "refuse")
    consoles.enqueue_vnc_preparation(row.id)
    run_tasks()
    [row] = console_sessions()
    assert ((row.port, row.node_password), row.error) == (before, None)


def test_the_password_of_the_node_changes_but_not_under_somebody_who_is_on_the_way(api_as, running, run_tasks):
    def create_session():
        created_session(api_as("owner", "GET", f"/api/instance/{running.id}/novnc"))
        run_tasks()
        return console_sessions()[-1]

    first, second = create_session(), create_session()
    assert first.node_password == second.node_password
    assert first.password != second.password
    for row in (first, second):
        row.redeemed_at = row.opened_at = clock.now()
    session.commit()
    assert create_session().node_password != first.node_password
