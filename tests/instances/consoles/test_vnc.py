"""VNC sessions of instances in both APIs."""

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import consoles, settings
from panel.workflows import waiting
from tests.instances.consoles.sessions import PUBLIC_URL, get_created_session, list_console_sessions
from tests.support.task_queue import run_queued_calls
from worker.nodes import NodeSpec, connect

VNC_ROUTES = [
    ("owner", "GET", "/api/instance/{}/novnc"),
    ("owner", "POST", "/api/instance/{}/console-session"),
    ("admin", "GET", "/api/v1/instance/{}/novnc"),
    ("admin", "POST", "/api/v1/instance/{}/console-session"),
]


@pytest.mark.parametrize(("caller", "method", "path"), VNC_ROUTES)
def test_vnc_session_is_created(api_as, running_instance, run_tasks, caller, method, path):
    """CON-01, CON-02, CON-03, CON-04, CON-16, CON-25, CON-26."""
    before = clock.now()
    answer = api_as(caller, method, path.format(running_instance.id), **({"json": {}} if method == "POST" else {}))
    console_session = get_created_session(answer, caller)
    assert console_session.keys() == {"url", "console_url", "password", "expires_at"}
    url = urlsplit(console_session["url"])
    assert (url.scheme, url.netloc, url.path) == ("ws", "panel.example.com:8000", "/vnc/")
    [secret] = parse_qs(url.query)["session"]
    assert console_session["console_url"] == f"{PUBLIC_URL}/console/{secret}"
    assert len(console_session["password"]) == 8
    lasts = datetime.fromisoformat(console_session["expires_at"]) - before
    assert timedelta(seconds=60) <= lasts < timedelta(seconds=70)
    assert answer.headers["Cache-Control"] == "no-store"
    run_tasks()
    [row] = list_console_sessions()
    assert (row.host, row.ssh_jump, row.error) == ("127.0.0.1", None, None)
    assert row.port
    assert row.node_password != console_session["password"]


def test_websocket_urls_use_tls_of_public_url(api_as, running_instance, set_public_url, inline_workers):
    """CON-03, SSH-06."""
    set_public_url("https://panel.example.com/")
    assert (
        api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc")
        .json["url"]
        .startswith("wss://panel.example.com/vnc/")
    )
    assert (
        api_as("owner", "GET", f"/api/instance/{running_instance.id}/webssh")
        .json["ws_url"]
        .startswith("wss://panel.example.com/")
    )


@pytest.mark.parametrize("caller", ["owner", "admin"])
@pytest.mark.parametrize(("seconds", "status"), [(10, 200), (600, 200), (9, 422), (601, 422), ("60", 422)])
def test_vnc_session_lifetime_is_chosen_within_bounds(api_as, running_instance, caller, seconds, status):
    """CON-17, CON-18."""
    path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{running_instance.id}/console-session"
    before = clock.now()
    answer = api_as(caller, "POST", path, json={"expires_in": seconds})
    assert answer.status_code == status
    if status == 200:
        lasts = datetime.fromisoformat(get_created_session(answer, caller)["expires_at"]) - before
        assert timedelta(seconds=seconds) <= lasts < timedelta(seconds=seconds + 10)
    else:
        assert "expires_in" in answer.json["errors"]
        assert list_console_sessions() == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://[::1]", "http://0.0.0.0", "http://[::]", "http://localhost", "http://127.9.9.9"],
)
@pytest.mark.parametrize(("caller", "method", "path"), VNC_ROUTES)
def test_vnc_session_with_loopback_url_is_refused(api_as, running_instance, set_public_url, url, caller, method, path):
    """CON-19, CON-20, CON-22, CON-24."""
    set_public_url(url)
    answer = api_as(caller, method, path.format(running_instance.id), **({"json": {}} if method == "POST" else {}))
    assert (answer.status_code, answer.json["reason"]) == (503, "master_address_unknown")
    assert not {"url", "console_url", "password"} & set(answer.json)
    assert list_console_sessions() == []


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000", "http://192.168.1.2", "http://[fd00::7]", "https://h.example"])
def test_vnc_session_with_private_public_url_is_created(api_as, running_instance, set_public_url, url):
    """CON-21."""
    set_public_url(url)
    assert (
        api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc")
        .json["console_url"]
        .startswith(f"{url}/console/")
    )


def test_vnc_session_refused_by_state_has_reason(api_as, running_instance, node, run_tasks):
    """CON-24, decision OP-08."""
    path = f"/api/instance/{running_instance.id}/novnc"

    def get_reason(caller="owner"):
        answer = api_as(caller, "GET", path if caller == "owner" else path.replace("/api/", "/api/v1/"))
        assert answer.status_code == 409
        assert answer.json["success"] is False
        return answer.json["reason"]

    instance = session.get(Instance, running_instance.id)
    instance.enable_vnc = False
    session.commit()
    assert (get_reason(), get_reason("admin")) == ("vnc_disabled", "vnc_disabled")
    instance = session.get(Instance, running_instance.id)
    instance.power = "off"
    session.commit()
    assert get_reason() == "not_running"
    session.get(Instance, running_instance.id).suspended_reason = "admin"
    session.commit()
    assert (get_reason(), get_reason("admin")) == ("suspended", "not_running")
    assert list_console_sessions() == []


@pytest.mark.parametrize("path", ["novnc", "webssh", "ssh-session"])
def test_console_routes_require_permission(api_as, running_instance, path):
    """CON-27."""
    for caller in ("outsider", "member"):
        assert api_as(caller, "GET", f"/api/instance/{running_instance.id}/{path}").status_code == 404
    assert api_as("viewer", "GET", f"/api/instance/{running_instance.id}/{path}").status_code == 403
    assert list_console_sessions() == []


def test_console_sessions_have_own_rate_limit(api_as, running_instance):
    """Decision NS-12."""
    settings.update({"rate_limit_consoles": 2})
    answers = [api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"consoles";q=2;w=60'
    assert api_as("owner", "GET", f"/api/instance/{running_instance.id}").status_code == 200


def test_vnc_error_of_node_is_recorded(api_as, running_instance, run_tasks, node):
    get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    node.power_off(running_instance.id)
    run_tasks()
    [row] = list_console_sessions()
    assert (row.port, row.error) == (None, "The machine is off.")


@pytest.fixture
def cluster_node(running_instance, cast, run_tasks, inline_workers, rolled_back_app):
    """The instance's node, in a cluster that issues console tickets."""
    row = session.get(Hypervisor, cast.node.id)
    row.uri = "simulated://?tickets=1"
    session.commit()
    jobs.enqueue_call("worker.sync.node_sync.probe", row.id)
    run_tasks()
    spec = NodeSpec(row.id, row.name, row.driver, session.get(Hypervisor, row.id).uri)
    return connect(spec, rolled_back_app.extensions["config"].data_dir)


@pytest.mark.parametrize(("caller", "method", "path"), VNC_ROUTES)
def test_vnc_session_without_cluster_ticket_is_refused(api_as, running_instance, cluster_node, caller, method, path):
    """CON-23, CON-24."""
    cluster_node.fault("console", "no-ticket", 1)

    def create_session():
        return api_as(caller, method, path.format(running_instance.id), **({"json": {}} if method == "POST" else {}))

    answer = create_session()
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    assert answer.json["success"] is False
    assert not {"url", "console_url", "password", "data"} & set(answer.json)
    assert list_console_sessions() == []
    assert get_created_session(create_session(), caller)["password"]
    [row] = list_console_sessions()
    assert row.port


def test_console_page_shows_missing_cluster_ticket(browser_as, running_instance, cluster_node):
    """CON-23: the button creates no session either."""
    cluster_node.fault("console", "no-ticket")
    sentence = "The console cannot be opened. The hypervisor&#39;s cluster issued no ticket for the console."
    for caller, prefix in (("owner", ""), ("admin", "/admin")):
        answer = browser_as(caller).post(f"{prefix}/instances/{running_instance.id}/console")
        assert answer.status_code == 503
        assert sentence in answer.text
    assert list_console_sessions() == []


def test_vnc_session_with_silent_cluster_times_out(api_as, running_instance, cluster_node, monkeypatch):
    """CON-23: also when the cluster does not answer. A late worker finds no session to prepare."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(times))
    answer = api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc")
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    run_queued_calls()
    session.expire_all()
    assert list_console_sessions() == []


def test_vnc_session_without_cluster_does_not_wait(api_as, running_instance, monkeypatch):
    """CON-23: the session exists before any worker is notified."""
    monkeypatch.setattr(waiting, "wait_for", None)
    get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    [row] = list_console_sessions()
    assert row.port is None


def test_repeated_notification_opens_vnc_console_once(api_as, running_instance, run_tasks, node):
    """The password, which may be about to be used, is kept."""
    get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    [row] = list_console_sessions()
    run_tasks()
    before = (row.port, row.node_password)
    node.fault("console", "refuse")
    consoles.enqueue_vnc_preparation(row.id)
    run_tasks()
    [row] = list_console_sessions()
    assert ((row.port, row.node_password), row.error) == (before, None)


def test_node_vnc_password_changes_only_after_redemption(api_as, running_instance, run_tasks):
    def create_session():
        get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
        run_tasks()
        return list_console_sessions()[-1]

    first, second = create_session(), create_session()
    assert first.node_password == second.node_password
    assert first.password != second.password
    for row in (first, second):
        row.redeemed_at = row.opened_at = clock.now()
    session.commit()
    assert create_session().node_password != first.node_password
