"""The shell through the panel's own routes."""

import sqlite3
from contextlib import closing

import pytest
from paramiko import AUTH_FAILED, AUTH_SUCCESSFUL
from playwright.sync_api import expect

from consoles.ssh_shell import host_key_fingerprint
from tests.browser.ssh_shell.conftest import ShellPage
from tests.browser.ssh_site import run_bash
from tests.browser.test_tokens import CUSTOMER, PASSWORD, sign_in
from tests.processes.conftest import Customer, fresh_installation, installation, installation_settings  # noqa: F401
from tests.support import ssh_guest as guests

pytestmark = pytest.mark.browser


@pytest.fixture
def running(installation):
    installation.up()
    installation.run_panel("user", "password", "--email", CUSTOMER, "--password", PASSWORD)
    return installation


class RedirectedConsoles:
    """A simulated machine has no SSH server, so each session is led to `guest`, which lets its key in."""

    def __init__(self, installation, monkeypatch):
        self.database = installation.data_dir / "panel.db"
        self.guest, self.keys = guests.SshGuest(run_bash), set()
        monkeypatch.setattr(
            guests.SshGuestInterface, "check_auth_publickey", lambda door, user, key: self.lets_in(user, key)
        )

    def lets_in(self, user, key):
        return AUTH_SUCCESSFUL if user == "root" and guests.public_key_line(key) in self.keys else AUTH_FAILED

    def set_endpoint(self, route):
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
        self.guest = guests.SshGuest(run_bash)


@pytest.mark.processes
def test_the_panels_own_routes(page, running, fresh_installation, monkeypatch, console_errors, screenshot):
    """SSH-15; ask 8: from signing in to a shell, a host key that changed, and a machine that is turned off."""
    customer, elsewhere = Customer(running, fresh_installation[1]), RedirectedConsoles(running, monkeypatch)
    instance, task = customer.deploy()
    customer.finished(task)
    page.route(f"**/instances/{instance}/shell", elsewhere.set_endpoint)
    shell = ShellPage(page, elsewhere)
    sign_in(page, running, CUSTOMER)
    page.goto(f"{running.url}/instances/{instance}/shell")
    shell.ready()
    shell.run("exit 7")
    expect(shell.strip).to_contain_text("exit code 7")

    before = host_key_fingerprint(guests.public_key_line(elsewhere.guest.host_keys[0]))
    elsewhere.anew()
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("host key of the instance has changed")
    expect(shell.strip).to_contain_text(before)
    expect(shell.strip).to_contain_text(host_key_fingerprint(guests.public_key_line(elsewhere.guest.host_keys[0])))
    shell.button("Accept this key and open").click()
    shell.ready()

    stopped = customer.call("POST", f"/api/instance/{instance}/power/poweroff")
    expect(shell.strip).to_contain_text("The instance was powered off.")
    customer.finished(stopped["task_id"])
    screenshot("off")
    shell.button("Open again").click()
    expect(shell.strip).to_contain_text("The instance is not running. Start it first.")
    assert "409" in console_errors.pop()
    elsewhere.guest.close()
