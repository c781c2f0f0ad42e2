"""The shell through the panel's own routes."""

import sqlite3
from contextlib import closing

import pytest
from paramiko import AUTH_FAILED, AUTH_SUCCESSFUL
from playwright.sync_api import expect

from consoles.ssh_shell import fingerprint
from tests.browser.ssh_shell.conftest import Shell
from tests.browser.ssh_site import bash
from tests.browser.test_tokens import CUSTOMER, PASSWORD, sign_in
from tests.processes.conftest import Customer, fresh, installation, settings  # noqa: F401
from tests.support import ssh_guest as guests

pytestmark = pytest.mark.browser


@pytest.fixture
def running(installation):  # noqa: F811
    installation.up()
    installation.panel("user", "password", "--email", CUSTOMER, "--password", PASSWORD)
    return installation


class Elsewhere:
    """A simulated machine has no SSH server, so each session is led to `guest`, which lets its key in."""

    def __init__(self, installation, monkeypatch):  # noqa: F811
        self.database = installation.data_dir / "panel.db"
        self.guest, self.keys = guests.Server(bash), set()
        monkeypatch.setattr(guests.Door, "check_auth_publickey", lambda door, user, key: self.lets_in(user, key))

    def lets_in(self, user, key):
        return AUTH_SUCCESSFUL if user == "root" and guests.line(key) in self.keys else AUTH_FAILED

    def lead(self, route):
        if route.request.method != "POST":
            return route.fallback()
        answer = route.fetch()
        if answer.ok:
            session_id = answer.json()["session_id"]
            with closing(sqlite3.connect(self.database, timeout=20)) as database, database:
                place = (self.guest.host, self.guest.port, session_id)
                database.execute("update console_sessions set host = ?, port = ? where id = ?", place)
                (key,) = database.execute(
                    "select public_key from console_sessions where id = ?", [session_id]
                ).fetchone()
            self.keys.add(" ".join(key.split()[:2]))
        return route.fulfill(response=answer)

    def anew(self):
        """The machine is another one from now on."""
        self.guest.close()
        self.guest = guests.Server(bash)


@pytest.mark.processes
def test_the_panels_own_routes(page, running, fresh, monkeypatch, complaints, shot):  # noqa: F811
    """SSH-15; ask 8: from signing in to a shell, a host key that changed, and a machine that is turned off."""
    customer, elsewhere = Customer(running, fresh[1]), Elsewhere(running, monkeypatch)
    instance, task = customer.deploy()
    customer.finished(task)
    page.route(f"**/instances/{instance}/shell", elsewhere.lead)
    shell = Shell(page, elsewhere)
    sign_in(page, running, CUSTOMER)
    page.goto(f"{running.url}/instances/{instance}/shell")
    shell.ready()
    shell.run("exit 7")
    expect(shell.strip).to_contain_text("exit code 7")

    before = fingerprint(guests.line(elsewhere.guest.host_keys[0]))
    elsewhere.anew()
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("another host key")
    expect(shell.strip).to_contain_text(before)
    expect(shell.strip).to_contain_text(fingerprint(guests.line(elsewhere.guest.host_keys[0])))
    shell.button("Accept this key and open").click()
    shell.ready()

    stopped = customer.call("POST", f"/api/instance/{instance}/power/poweroff")
    expect(shell.strip).to_contain_text("The machine was turned off.")
    customer.finished(stopped["task_id"])
    shot("off")
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("The instance is not running. Start it first.")
    assert "409" in complaints.pop()
    elsewhere.guest.close()
