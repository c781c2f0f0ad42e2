"""Screens of instances, by both APIs."""

from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import consoles, settings
from tests.conftest import work_off
from tests.instances.consoles.conftest import URL, minted, rows
from worker.nodes import NodeSpec, connect

SCREENS = [
    ("owner", "GET", "/api/instance/{}/novnc"),
    ("owner", "POST", "/api/instance/{}/console-session"),
    ("admin", "GET", "/api/v1/instance/{}/novnc"),
    ("admin", "POST", "/api/v1/instance/{}/console-session"),
]


@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_a_screen_is_minted(as_, running, work, who, method, path):
    """CON-01, CON-02, CON-03, CON-04, CON-16, CON-25, CON-26."""
    before = clock.now()
    answer = as_(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))
    found = minted(answer, who)
    assert found.keys() == {"url", "console_url", "password", "expires_at"}
    url = urlsplit(found["url"])
    assert (url.scheme, url.netloc, url.path) == ("ws", "panel.example.com:8000", "/vnc/")
    [secret] = parse_qs(url.query)["session"]
    assert found["console_url"] == f"{URL}/console/{secret}"
    assert len(found["password"]) == 8
    lasts = datetime.fromisoformat(found["expires_at"]) - before
    assert timedelta(seconds=60) <= lasts < timedelta(seconds=70)
    assert answer.headers["Cache-Control"] == "no-store"
    work()
    [row] = rows()
    assert (row.host, row.via, row.problem) == ("127.0.0.1", None, None)
    assert row.port
    assert row.node_password != found["password"]


def test_sockets_are_encrypted_where_the_panel_is(as_, running, address, workers):
    """CON-03, SSH-06."""
    address("https://panel.example.com/")
    assert (
        as_("owner", "GET", f"/api/instance/{running.id}/novnc").json["url"].startswith("wss://panel.example.com/vnc/")
    )
    assert (
        as_("owner", "GET", f"/api/instance/{running.id}/webssh").json["ws_url"].startswith("wss://panel.example.com/")
    )


@pytest.mark.parametrize("who", ["owner", "admin"])
@pytest.mark.parametrize(("seconds", "status"), [(10, 200), (600, 200), (9, 422), (601, 422), ("60", 422)])
def test_a_program_says_how_long_a_session_is_good(as_, running, who, seconds, status):
    """CON-17, CON-18."""
    path = f"/api{'/v1' if who == 'admin' else ''}/instance/{running.id}/console-session"
    before = clock.now()
    answer = as_(who, "POST", path, json={"expires_in": seconds})
    assert answer.status_code == status
    if status == 200:
        lasts = datetime.fromisoformat(minted(answer, who)["expires_at"]) - before
        assert timedelta(seconds=seconds) <= lasts < timedelta(seconds=seconds + 10)
    else:
        assert "expires_in" in answer.json["errors"]
        assert rows() == []


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000", "http://[::1]", "http://0.0.0.0", "http://[::]", "http://localhost", "http://127.9.9.9"],
)
@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_a_panel_that_does_not_know_its_address_mints_nothing(as_, running, address, url, who, method, path):
    """CON-19, CON-20, CON-22, CON-24."""
    address(url)
    answer = as_(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))
    assert (answer.status_code, answer.json["reason"]) == (503, "master_address_unknown")
    assert not {"url", "console_url", "password"} & set(answer.json)
    assert rows() == []


@pytest.mark.parametrize("url", ["http://10.0.0.7:8000", "http://192.168.1.2", "http://[fd00::7]", "https://h.example"])
def test_a_private_address_is_an_address(as_, running, address, url):
    """CON-21."""
    address(url)
    assert as_("owner", "GET", f"/api/instance/{running.id}/novnc").json["console_url"].startswith(f"{url}/console/")


def test_a_screen_that_cannot_be_opened_says_why(as_, running, node, work):
    """CON-24, decision OP-08."""
    path = f"/api/instance/{running.id}/novnc"

    def reason(who="owner"):
        answer = as_(who, "GET", path if who == "owner" else path.replace("/api/", "/api/v1/"))
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
    assert rows() == []


@pytest.mark.parametrize("path", ["novnc", "webssh", "ssh-session"])
def test_consoles_of_others_are_out_of_reach(as_, running, path):
    """CON-27."""
    for who in ("outsider", "member"):
        assert as_(who, "GET", f"/api/instance/{running.id}/{path}").status_code == 404
    assert as_("viewer", "GET", f"/api/instance/{running.id}/{path}").status_code == 403
    assert rows() == []


def test_minting_has_a_budget_of_its_own(as_, running):
    """Decision NS-12."""
    settings.update({"rate_limit_consoles": 2})
    answers = [as_("owner", "GET", f"/api/instance/{running.id}/novnc") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"consoles";q=2;w=60'
    assert as_("owner", "GET", f"/api/instance/{running.id}").status_code == 200


def test_a_node_that_opens_no_screen_is_told_of(as_, running, work, node):
    minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    node.power_off(running.id)
    work()
    [row] = rows()
    assert (row.port, row.problem) == (None, "The machine is off.")


@pytest.fixture
def in_a_cluster(running, cast, work, workers, world):
    """The instance's node, which belongs to a cluster that issues tickets for screens."""
    row = session.get(Hypervisor, cast.node.id)
    row.uri = "simulated://?tickets=1"
    session.commit()
    jobs.call("worker.sync.node_sync.check", row.id)
    work()
    spec = NodeSpec(row.id, row.name, row.driver, session.get(Hypervisor, row.id).uri)
    return connect(spec, world.extensions["config"].data_dir)


@pytest.mark.parametrize(("who", "method", "path"), SCREENS)
def test_a_node_whose_cluster_issues_no_ticket_opens_no_screen(as_, running, in_a_cluster, who, method, path):
    """CON-23, CON-24."""
    in_a_cluster.fault("console", "no-ticket", 1)

    def mint():
        return as_(who, method, path.format(running.id), **({"json": {}} if method == "POST" else {}))

    answer = mint()
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    assert answer.json["success"] is False
    assert not {"url", "console_url", "password", "data"} & set(answer.json)
    assert rows() == []
    assert minted(mint(), who)["password"]
    [row] = rows()
    assert row.port


def test_the_pages_say_that_there_is_no_ticket(browse, running, in_a_cluster):
    """CON-23: nothing is minted by the button either, nor by a page that opens its screen again."""
    in_a_cluster.fault("console", "no-ticket")
    sentence = "The screen cannot be opened. The hypervisor&#39;s cluster issued no ticket for the screen."
    for who, prefix in (("owner", ""), ("admin", "/admin")):
        answer = browse(who).post(f"{prefix}/instances/{running.id}/console")
        assert answer.status_code == 503
        assert sentence in answer.text
    assert rows() == []


def test_a_cluster_that_is_silent_issues_no_ticket_either(as_, running, in_a_cluster, monkeypatch):
    """CON-23: also when nobody says so. A worker that is late finds nothing to open."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(jobs.time, "monotonic", lambda: next(times))
    answer = as_("owner", "GET", f"/api/instance/{running.id}/novnc")
    assert (answer.status_code, answer.json["reason"]) == (503, "cluster_console_unavailable")
    work_off()
    session.expire_all()
    assert rows() == []


def test_nobody_waits_where_no_ticket_is_needed(as_, running, monkeypatch):
    """CON-23: the session is there before any worker has heard of it."""
    monkeypatch.setattr(jobs, "awaited", None)
    minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    [row] = rows()
    assert row.port is None


def test_a_bell_that_rings_twice_opens_a_screen_once(as_, running, work, node):
    """The password that somebody may be about to use stays."""
    minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    [row] = rows()
    work()
    before = (row.port, row.node_password)
    node.fault("console", "refuse")
    consoles.ring(row.id)
    work()
    [row] = rows()
    assert ((row.port, row.node_password), row.problem) == (before, None)


def test_the_password_of_the_node_changes_but_not_under_somebody_who_is_on_the_way(as_, running, work):
    def mint():
        minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
        work()
        return rows()[-1]

    first, second = mint(), mint()
    assert first.node_password == second.node_password
    assert first.password != second.password
    for row in (first, second):
        row.spent_at = row.opened_at = clock.now()
    session.commit()
    assert mint().node_password != first.node_password
