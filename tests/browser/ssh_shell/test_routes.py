"""The shell page through the routes of the panel."""

import sqlite3
from contextlib import closing

import pytest
from paramiko import AUTH_FAILED, AUTH_SUCCESSFUL
from playwright.sync_api import expect

from consoles.ssh_shell import compute_fingerprint
from tests.browser.running_installation import CUSTOMER, sign_in
from tests.browser.ssh_shell.shell_page import ShellPage
from tests.browser.ssh_site import run_bash
from tests.support import ssh_guest as guests

pytestmark = pytest.mark.browser


class SshEndpointRedirect:
    """Redirect console sessions to `guest`, which accepts their keys: a simulated machine has no SSH server."""

    def __init__(self, installation, monkeypatch):
        self.database = installation.data_dir / "panel.db"
        self.guest, self.keys = guests.SshGuest(run_bash), set()
        monkeypatch.setattr(
            guests.SshGuestInterface, "check_auth_publickey", lambda interface, user, key: self.check_key(user, key)
        )

    def check_key(self, user, key):
        return AUTH_SUCCESSFUL if user == "root" and guests.public_key_line(key) in self.keys else AUTH_FAILED

    def set_endpoint(self, route):
        if route.request.method != "POST":
            return route.fallback()
        answer = route.fetch()
        if answer.ok:
            session_id = answer.json()["session_id"]
            with closing(sqlite3.connect(self.database, timeout=20)) as database, database:
                values = (self.guest.host, self.guest.port, session_id)
                database.execute("update console_sessions set host = ?, port = ? where id = ?", values)
                (key,) = database.execute(
                    "select public_key from console_sessions where id = ?", [session_id]
                ).fetchone()
            self.keys.add(" ".join(key.split()[:2]))
        return route.fulfill(response=answer)

    def replace_guest(self):
        """Replace the SSH server by one with another host key."""
        self.guest.close()
        self.guest = guests.SshGuest(run_bash)


@pytest.mark.processes
def test_shell_opens_through_panel_routes(page, running_installation, monkeypatch, console_errors, screenshot):
    """SSH-15: sign-in, shell, changed host key, and power off."""
    customer = running_installation.customer
    ssh_endpoint_redirect = SshEndpointRedirect(running_installation, monkeypatch)
    instance, task = customer.deploy()
    customer.wait_for_task(task)
    page.route(f"**/instances/{instance}/shell", ssh_endpoint_redirect.set_endpoint)
    shell_page = ShellPage(page, ssh_endpoint_redirect)
    sign_in(page, running_installation, CUSTOMER)
    page.goto(f"{running_installation.url}/instances/{instance}/shell")
    shell_page.wait_until_ready()
    shell_page.run("exit 7")
    expect(shell_page.notice).to_contain_text("exit code 7")

    previous_fingerprint = compute_fingerprint(guests.public_key_line(ssh_endpoint_redirect.guest.host_keys[0]))
    ssh_endpoint_redirect.replace_guest()
    shell_page.find_button("Open again").click()
    expect(shell_page.notice).to_contain_text("host key of the instance has changed")
    expect(shell_page.notice).to_contain_text(previous_fingerprint)
    expect(shell_page.notice).to_contain_text(
        compute_fingerprint(guests.public_key_line(ssh_endpoint_redirect.guest.host_keys[0]))
    )
    shell_page.find_button("Accept this key and open").click()
    shell_page.wait_until_ready()

    answer = customer.call("POST", f"/api/instance/{instance}/power/poweroff")
    expect(shell_page.notice).to_contain_text("The instance was powered off.")
    customer.wait_for_task(answer["task_id"])
    screenshot("off")
    shell_page.find_button("Open again").click()
    expect(shell_page.notice).to_contain_text("The instance is not running. Start it first.")
    assert "409" in console_errors.pop()
    ssh_endpoint_redirect.guest.close()
