"""Consoles of instances, on the pages."""

from urllib.parse import urlsplit

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Instance
from tests.instances.consoles.sessions import get_created_session, list_console_sessions


def test_console_page_opens_repeatedly_without_redeeming_session(browser_as, running_instance, api_as):
    """CON-05, CON-06, CON-07."""
    console_session = get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    path = urlsplit(console_session["console_url"]).path
    for _ in range(3):
        page = browser_as().get(path)
        assert page.status_code == 200
        assert console_session["password"] in page.text
        assert urlsplit(console_session["url"]).query in page.text
        assert page.headers["Cache-Control"] == "no-store"
    [row] = list_console_sessions()
    assert row.state == "fresh"


@pytest.mark.parametrize("state", ["unknown", "expired", "spent"])
def test_console_page_of_unusable_session_is_404(browser_as, running_instance, api_as, state):
    """CON-10, CON-12, CON-13, CON-14."""
    path = urlsplit(
        get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))["console_url"]
    ).path
    [row] = list_console_sessions()
    if state == "expired":
        row.expires_at = clock.now()
    if state == "spent":
        row.redeemed_at = clock.now()
    session.commit()
    path = path + "x" if state == "unknown" else path
    assert browser_as().get(path).status_code == 404
    assert row.password not in browser_as().get(path).text
    own_answer = browser_as("owner").get(path)
    assert own_answer.status_code == 404
    assert ("Open a new console" in own_answer.text) == (state != "unknown")
    assert "Open a new console" not in browser_as("outsider").get(path).text
    state_answer = browser_as().get(f"{path}/state", headers={"Accept": "application/json"})
    assert state_answer.json.get("state") == {"unknown": None, "expired": "expired", "spent": "open"}[state]


def test_console_reopen_requires_login_and_permission(browser_as, running_instance, api_as):
    path = urlsplit(
        get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))["console_url"]
    ).path
    json_request = {"headers": {"Accept": "application/json"}}
    assert browser_as().post(f"{path}/again", **json_request).status_code == 401
    for caller in ("outsider", "viewer", "member"):
        answer = browser_as(caller).post(f"{path}/again", **json_request)
        assert (answer.status_code, "password" in answer.json) == (404, False)
    for caller in ("owner", "admin"):
        answer = browser_as(caller).post(f"{path}/again", **json_request)
        assert answer.json.keys() == {"page", "socket", "password"}
        assert browser_as(caller).get(answer.json["page"]).status_code == 200
    session.get(Instance, running_instance.id).power = "off"
    session.commit()
    answer = browser_as("owner").post(f"{path}/again", **json_request)
    assert (answer.status_code, answer.json["reason"]) == (409, "not_running")
    assert "not running" in answer.json["message"]


def test_buttons_open_vnc_and_ssh_consoles(browser_as, running_instance, inline_workers):
    for caller, prefix in (("owner", ""), ("admin", "/admin")):
        browser = browser_as(caller)
        answer = browser.post(f"{prefix}/instances/{running_instance.id}/console")
        assert answer.status_code == 303
        assert browser.get(answer.headers["Location"]).status_code == 200
        assert browser.get(f"{prefix}/instances/{running_instance.id}/shell").status_code == 200
        opened = browser.post(f"{prefix}/instances/{running_instance.id}/shell", headers={"Accept": "application/json"})
        assert opened.json["socket"].startswith("/ssh/")
        assert (
            f"{prefix}/instances/{running_instance.id}/shell"
            in browser.get(f"{prefix}/instances/{running_instance.id}").text
        )
    kinds = {row.opened_by["person_kind"] for row in list_console_sessions()}
    assert kinds == {"owner", "operator"}


def test_unavailable_console_button_shows_reason(browser_as, running_instance):
    session.get(Instance, running_instance.id).power = "off"
    session.commit()
    page = browser_as("owner").get(f"/instances/{running_instance.id}").text
    assert page.count("The instance is not running. Start it first.") >= 2


def test_changed_host_key_is_accepted_by_fingerprint(browser_as, running_instance):
    first, second = (f"ssh-ed25519 {text}" for text in ("AAAA", "BBBB"))
    instance = session.get(Instance, running_instance.id)
    instance.ssh_host_key, instance.presented_host_key = first, second
    session.commit()
    browser, path = browser_as("owner"), f"/instances/{running_instance.id}/shell/host-key"
    answer = browser.get(path).json
    assert answer["known"].startswith("SHA256:")
    assert answer["known"] != answer["shown"]
    refused = browser.post(path, data={"shown": answer["known"]}, headers={"Accept": "application/json"})
    assert refused.status_code == 409
    assert browser.post(path, data={"shown": answer["shown"]}).json == {"known": answer["shown"], "shown": None}
    assert session.get(Instance, running_instance.id).ssh_host_key == second
