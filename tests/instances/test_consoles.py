"""Sessions of screens and shells: minting them by both APIs, at the pages, and who may."""

from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import select

from panel import clock, deeds, jobs
from panel.db import session
from panel.models import AuditEntry, ConsoleSession, Hypervisor, Image, Instance, Role, Token
from panel.services import consoles, instances, settings
from tests.conftest import work_off
from worker.nodes import NodeSpec, connect

URL = "http://panel.example.com:8000"
USERS = ("POST /api/instance/{}/ssh-session", "GET /api/instance/{}/webssh")
SHELLS = [("owner", *USERS[0].split()), ("owner", *USERS[1].split()), ("admin", "GET", "/api/v1/instance/{}/ssh")]
SCREENS = [
    ("owner", "GET", "/api/instance/{}/novnc"),
    ("owner", "POST", "/api/instance/{}/console-session"),
    ("admin", "GET", "/api/v1/instance/{}/novnc"),
    ("admin", "POST", "/api/v1/instance/{}/console-session"),
]


@pytest.fixture
def address(world, monkeypatch):
    """Sets the address that people type."""

    def set_to(url):
        monkeypatch.setitem(world.extensions, "config", replace(world.extensions["config"], public_url=url))

    set_to(URL)
    return set_to


@pytest.fixture
def running(cast, work, node, address):
    """A deployed instance that runs, with its guest up."""
    made = cast.instance()
    instances.deploy(made, image_id=cast.image.id, actor="owner@example.com")
    session.commit()
    work()
    before = node.options
    node.options = replace(before, boot_seconds=0)
    yield made
    node.options = before


@pytest.fixture
def workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: work_off())


def minted(answer, who="owner"):
    assert answer.status_code == 200, answer.json
    return answer.json["data"] if who == "admin" else answer.json


def rows():
    return session.scalars(select(ConsoleSession).execution_options(populate_existing=True)).all()


# --- screens


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
    jobs.call("worker.hypervisors.check", row.id)
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


# --- shells


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_is_minted(as_, running, workers, who, method, path):
    """SSH-01, SSH-02, SSH-03, SSH-04, SSH-05, SSH-23."""
    answer = as_(who, method, path.format(running.id))
    found = minted(answer, who)
    assert found.keys() == {"token", "session_id", "task_id", "ws_url", "expires_in"}
    assert found["expires_in"] == 900
    assert found["ws_url"] == f"ws://panel.example.com:8000/ssh/{found['token']}"
    assert answer.headers["Cache-Control"] == "no-store"
    again = minted(as_(who, method, path.format(running.id)), who)
    assert len(found["token"]) >= 40
    assert again["token"] != found["token"]
    task = as_("owner", "GET", f"/api/instance/{running.id}/task/{found['task_id']}").json["task"]
    assert (task["kind"], task["status"]) == ("instance_ssh_session", "completed")
    row = session.get(ConsoleSession, found["session_id"])
    assert (row.host, row.port, row.user) == (running.ipv4, 22, "root")
    assert row.expires_at - row.created_at < timedelta(seconds=901)


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_that_cannot_be_opened_says_why(as_, running, workers, cast, node, who, method, path):
    """SSH-15, SSH-17, SSH-18, SSH-19, SSH-21, SSH-22."""

    def refused():
        answer = as_(who, method, path.format(running.id))
        assert answer.status_code >= 400
        assert answer.json["success"] is False
        assert not {"token", "ws_url", "data"} & set(answer.json)
        return answer.status_code, answer.json.get("reason")

    node.set_guest(running.id, agent=False)
    assert refused() == (503, "ssh_key_injection_failed")
    [row] = rows()
    assert row.state == "expired"
    node.set_guest(running.id, agent=True)
    instance, image = session.get(Instance, running.id), session.get(Image, cast.image.id)
    image.type = "windows"
    session.commit()
    assert refused() == (422, "unsupported_os")
    session.get(Image, cast.image.id).type = "linux"
    instance = session.get(Instance, running.id)
    instance.ipv4 = instance.ipv6 = None
    session.commit()
    assert refused() == (422, None)
    session.get(Instance, running.id).power = "off"
    session.commit()
    assert refused() == (409, "instance_not_running")


@pytest.mark.parametrize(("who", "method", "path"), SHELLS)
def test_a_shell_whose_node_is_silent_has_no_reason(as_, running, workers, node, who, method, path):
    """SSH-20."""
    before = node.options
    node.options = replace(before, deadline=0.01)
    node.fault("agent_run", "silent")
    try:
        answer = as_(who, method, path.format(running.id))
    finally:
        node.options = before
        node.clear()
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    assert answer.json["success"] is False


def test_a_shell_needs_a_node(running):
    """SSH-16. Every instance has one here from the moment it is ordered, so no row can show this through the API."""
    with session.no_autoflush:
        instance = session.get(Instance, running.id)
        instance.hypervisor_id = None
        refused = consoles.shell_refusal(instance)
        session.rollback()
    assert (refused.status, refused.reason) == (409, "no_hypervisor")


def test_without_a_worker_a_shell_is_refused_in_the_end(as_, running, monkeypatch):
    """SSH-20. The task that was not begun is cancelled, so that no key appears later."""
    monkeypatch.setattr(jobs.time, "sleep", lambda _: None)
    times = iter(range(0, 1000, 10))
    monkeypatch.setattr(jobs.time, "monotonic", lambda: next(times))
    answer = as_("owner", "POST", f"/api/instance/{running.id}/ssh-session")
    assert (answer.status_code, "reason" in answer.json) == (503, False)
    [row] = rows()
    assert row.state == "expired"
    work_off()
    session.expire_all()
    assert rows()[0].key_put_at is None


def test_the_key_is_in_the_guest_for_as_long_as_the_shell(as_, running, workers, node, work):
    found = minted(as_("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    row = session.get(ConsoleSession, found["session_id"])
    public_key, kept = row.public_key, session.scalar(select(ConsoleSession.private_key))
    assert "OPENSSH PRIVATE KEY" in kept
    assert public_key in node.authorized_keys(running.id)
    row.spent_at = clock.now()
    consoles.ended(row.id, reason="left", message="The browser closed the console.")
    session.commit()
    work()
    assert public_key not in node.authorized_keys(running.id)
    [row] = rows()
    assert row.key_removed_at
    assert row.private_key is None


def test_the_key_of_a_shell_that_nobody_opened_is_taken_out(as_, running, workers, node, work, monkeypatch):
    minted(as_("owner", "POST", f"/api/instance/{running.id}/ssh-session"))
    [row] = rows()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=16))
    jobs.call("worker.consoles.tidy")
    work()
    assert row.public_key not in node.authorized_keys(running.id)
    assert rows()[0].key_removed_at


def test_the_current_shell_is_shown_and_closed(as_, running, workers):
    path = f"/api/instance/{running.id}/ssh-session"
    assert as_("owner", "GET", path).json == {"active": False, "session": None}
    made = minted(as_("owner", "POST", path))
    found = as_("owner", "GET", path).json
    assert found["active"] is True
    assert found["session"]["session_id"] == made["session_id"]
    assert (found["session"]["state"], found["session"]["by"]) == ("fresh", "owner@example.com")
    assert made["token"] not in str(found)
    status = f"/api/v1/instance/{running.id}/ssh-session/status"
    assert as_("admin", "GET", status).json["data"]["session"]["session_id"] == made["session_id"]
    assert as_("owner", "DELETE", path).json["success"] is True
    assert as_("owner", "GET", path).json["active"] is False
    minted(as_("owner", "POST", path))
    assert as_("admin", "DELETE", f"/api/v1/instance/{running.id}/ssh-session").status_code == 200
    assert as_("admin", "GET", status).json["data"] == {"active": False, "session": None}


# --- the pages


def test_the_page_of_a_screen_opens_for_whoever_has_its_address_and_spends_nothing(browse, running, as_):
    """CON-05, CON-06, CON-07."""
    found = minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    path = urlsplit(found["console_url"]).path
    for _ in range(3):
        page = browse().get(path)
        assert page.status_code == 200
        assert found["password"] in page.text
        assert urlsplit(found["url"]).query in page.text
        assert page.headers["Cache-Control"] == "no-store"
    [row] = rows()
    assert row.state == "fresh"


@pytest.mark.parametrize("state", ["unknown", "expired", "spent"])
def test_an_address_that_is_no_good_any_more_is_404(browse, running, as_, state):
    """CON-10, CON-12, CON-13, CON-14."""
    path = urlsplit(minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))["console_url"]).path
    [row] = rows()
    if state == "expired":
        row.expires_at = clock.now()
    if state == "spent":
        row.spent_at = clock.now()
    session.commit()
    path = path + "x" if state == "unknown" else path
    assert browse().get(path).status_code == 404
    assert row.password not in browse().get(path).text
    mine = browse("owner").get(path)
    assert mine.status_code == 404
    assert ("Open a new one" in mine.text) == (state != "unknown")
    assert "Open a new one" not in browse("outsider").get(path).text
    told = browse().get(f"{path}/state", headers={"Accept": "application/json"})
    assert told.json.get("state") == {"unknown": None, "expired": "expired", "spent": "open"}[state]


def test_a_new_session_is_for_people_who_are_signed_in_and_may(browse, running, as_):
    path = urlsplit(minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))["console_url"]).path
    asked = {"headers": {"Accept": "application/json"}}
    assert browse().post(f"{path}/again", **asked).status_code == 401
    for who in ("outsider", "viewer", "member"):
        answer = browse(who).post(f"{path}/again", **asked)
        assert (answer.status_code, "password" in answer.json) == (404, False)
    for who in ("owner", "admin"):
        answer = browse(who).post(f"{path}/again", **asked)
        assert answer.json.keys() == {"page", "socket", "password"}
        assert browse(who).get(answer.json["page"]).status_code == 200
    session.get(Instance, running.id).power = "off"
    session.commit()
    answer = browse("owner").post(f"{path}/again", **asked)
    assert (answer.status_code, answer.json["reason"]) == (409, "not_running")
    assert "not running" in answer.json["message"]


def test_the_buttons_open_a_screen_and_a_shell(browse, running, workers):
    for who, prefix in (("owner", ""), ("admin", "/admin")):
        browser = browse(who)
        answer = browser.post(f"{prefix}/instances/{running.id}/console")
        assert answer.status_code == 303
        assert browser.get(answer.headers["Location"]).status_code == 200
        assert browser.get(f"{prefix}/instances/{running.id}/shell").status_code == 200
        opened = browser.post(f"{prefix}/instances/{running.id}/shell", headers={"Accept": "application/json"})
        assert opened.json["socket"].startswith("/ssh/")
        assert f"{prefix}/instances/{running.id}/shell" in browser.get(f"{prefix}/instances/{running.id}").text
    kinds = {row.who["person_kind"] for row in rows()}
    assert kinds == {"owner", "operator"}


def test_what_cannot_be_opened_has_a_button_that_says_why(browse, running):
    session.get(Instance, running.id).power = "off"
    session.commit()
    page = browse("owner").get(f"/instances/{running.id}").text
    assert page.count("The instance is not running. Start it first.") >= 2


def test_a_changed_host_key_is_accepted_by_its_fingerprint(browse, running):
    first, second = (f"ssh-ed25519 {text}" for text in ("AAAA", "BBBB"))
    instance = session.get(Instance, running.id)
    instance.ssh_host_key, instance.shown_host_key = first, second
    session.commit()
    browser, path = browse("owner"), f"/instances/{running.id}/shell/host-key"
    found = browser.get(path).json
    assert found["known"].startswith("SHA256:")
    assert found["known"] != found["shown"]
    refused = browser.post(path, data={"shown": found["known"]}, headers={"Accept": "application/json"})
    assert refused.status_code == 409
    assert browser.post(path, data={"shown": found["shown"]}).json == {"known": found["shown"], "shown": None}
    assert session.get(Instance, running.id).ssh_host_key == second


# --- what ends them


@pytest.fixture
def opened(as_, running, workers):
    """A session that is open, as its row says."""

    def make(kind="screen", who="owner", row=None):
        if row is None:
            path = {"screen": "novnc", "shell": "webssh"}[kind]
            if who == "admin":
                path = path.replace("webssh", "ssh")
            minted(as_(who, "GET", f"/api{'/v1' if who == 'admin' else ''}/instance/{running.id}/{path}"), who)
            row = rows()[-1]
        row.spent_at = row.seen_at = row.opened_at = clock.now()
        row.ip = "192.0.2.7"
        session.commit()
        return row

    return make


def why(row):
    session.expire_all()
    return consoles.unwelcome([row.id], lambda role: role in ("full", "support")).get(row.id)


def test_consoles_that_are_allowed_stay_open(opened):
    for row in (opened(), opened("shell"), opened(who="admin"), opened("shell", "admin")):
        assert why(row) is None


def test_what_happens_to_the_machine_closes_its_consoles(opened, running, cast, work):
    screen, shell, operators = opened(), opened("shell"), opened(who="admin")
    instance = session.get(Instance, running.id)
    instance.suspended_reason = "admin"
    session.commit()
    assert (why(screen), why(operators)) == ("The machine was suspended.", None)
    instance = session.get(Instance, running.id)
    instance.suspended_reason, instance.power = None, "off"
    session.commit()
    assert (why(screen), why(shell)) == (None, "The machine was turned off.")
    instance = session.get(Instance, running.id)
    instance.power, instance.enable_vnc = "on", False
    session.commit()
    assert (why(screen), why(shell)) == ("The screen of the machine was turned off.", None)
    session.get(Instance, running.id).enable_vnc = True
    instances.destroy(session.get(Instance, running.id), actor="owner@example.com")
    session.commit()
    assert why(screen) == why(operators) == "The machine is being destroyed or installed anew."
    ids = [screen.id]
    work()
    assert consoles.unwelcome(ids, lambda role: True) == {ids[0]: "The machine was destroyed."}


def test_a_token_that_is_revoked_closes_what_it_opened(opened, as_):
    row = opened()
    token = session.scalar(select(Token).where(Token.id == row.who["token_id"]))
    session.delete(token)
    session.commit()
    assert why(row) == "The token that opened this console is no longer valid."


def test_a_sign_out_closes_what_the_browser_opened(opened, browse, running):
    browser = browse("owner")
    browser.post(f"/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert why(row) is None
    browser.post("/sign-out")
    assert why(row) == "You signed out."


def test_a_member_who_loses_the_right_or_the_reach_loses_the_console(opened, browse, running, cast):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    held = role.permissions
    role.permissions = [*held, "instances.console"]
    session.commit()
    browse("viewer").post(f"/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert (row.who["person_kind"], why(row)) == ("member", None)
    session.scalar(select(Role).where(Role.name == "Viewer")).permissions = held
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_an_operator_who_is_none_any_more_loses_the_console(opened, browse, running, cast):
    browse("admin").post(f"/admin/instances/{running.id}/console")
    row = opened(row=rows()[-1])
    assert why(row) is None
    cast.admin.operator_role = "read_only"
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_a_suspended_account_keeps_no_console(opened, cast):
    row = opened()
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert why(row) == "You may no longer open consoles of this machine."


def test_operators_list_and_close_them(opened, browse, running):
    row = opened()
    page = browse("admin").get("/admin/consoles").text
    assert running.display_name in page
    assert "192.0.2.7" in page
    assert "owner@example.com" in page
    assert browse("admin").post(f"/admin/consoles/{row.id}/close").status_code == 303
    assert why(row) == "An operator closed the console."
    assert browse("owner").get("/admin/consoles").status_code == 403


def test_looking_at_many_consoles_takes_as_many_questions_as_at_one(opened, queries):
    ids = [opened().id for _ in range(5)]

    def asked(some):
        session.expire_all()
        queries.clear()
        consoles.unwelcome(some, lambda role: True)
        return len(queries)

    asked(ids)
    assert asked(ids[:1]) == asked(ids)


def test_openings_and_endings_are_in_the_audit_log(opened, running):
    row = opened()
    consoles.is_open(row.id)
    consoles.ended(row.id, reason="left", message="The browser closed the console.", bytes_in=7, bytes_out=9)
    session.commit()
    entries = session.scalars(
        select(AuditEntry).where(AuditEntry.action.startswith("console.")).order_by(AuditEntry.id)
    )
    began, over = entries = entries.all()
    assert (began.action, began.person, began.object_id, began.ip) == (
        "console.opened",
        "owner@example.com",
        running.id,
        "192.0.2.7",
    )
    assert (over.action, over.changes["reason"], over.changes["seconds"] >= 0) == ("console.closed", "left", True)
    assert [deeds.words(entry)[:15] for entry in entries] == ["A screen opened", "A screen closed"]
    assert over.account_id == running.account_id
    consoles.ended(row.id, reason="left", message="again")
    assert session.get(ConsoleSession, row.id).ended_message == "The browser closed the console."


def test_a_process_that_died_leaves_no_console_open_in_the_books(opened, work, monkeypatch):
    row = opened()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(minutes=1))
    jobs.call("worker.consoles.tidy")
    work()
    row = session.get(ConsoleSession, row.id)
    assert (row.state, row.ended_reason) == ("ended", "lost")


def test_sessions_of_last_month_are_forgotten(opened, monkeypatch):
    opened()
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + timedelta(days=31))
    consoles.tidy()
    assert rows() == []


def test_secrets_lie_encrypted(as_, running, workers):
    found = minted(as_("owner", "GET", f"/api/instance/{running.id}/novnc"))
    minted(as_("owner", "GET", f"/api/instance/{running.id}/webssh"))
    kept = session.connection().exec_driver_sql("select * from console_sessions").mappings().all()
    [secret] = parse_qs(urlsplit(found["url"]).query)["session"]
    assert len(kept) == 2
    for word in (secret, found["password"], "PRIVATE KEY"):
        assert not any(word in str(dict(row)) for row in kept)
