"""Screens and shells of a real guest while processes of the panel, the node's daemon and the guest are killed."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.guests.console_user import ConsoleUser, Shell, is_screen_live
from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD, SAVED_HOSTNAME
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def customer(lab):
    return ConsoleUser(lab.installation, CUSTOMER_EMAIL, CUSTOMER_PASSWORD)


def create_shell_session(lab, guest):
    return lab.call("POST", f"/api/instance/{guest['id']}/ssh-session")


def open_shell(lab, customer, guest):
    return Shell(customer.connect(f"/ssh/{create_shell_session(lab, guest)['token']}"))


def kill_processes(lab, name):
    """Kill the panel's processes of that name, and wait until new ones run."""
    before = {process.pid for process in lab.installation.list_children(name)}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: len({process.pid for process in lab.installation.list_children(name)} - before) == len(before),
        f"another {name}",
    )


def test_screen_and_shell_belong_to_guest(lab, customer, guest):
    """CON-06, SSH-07."""
    viewer, title = customer.open_screen(customer.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert open_shell(lab, customer, guest).run("hostname") == SAVED_HOSTNAME


def test_shell_of_guest_without_ipv4_uses_ipv6(lab, customer):
    """SSH-07"""
    group = lab.call("GET", f"/api/cloud-service/location/{lab.location}/plan-groups")[0]["id"]
    six = {"name": "Six", "plan_group_id": group, "cpu_cores": 1, "ram": 256, "storage": 1, "ipv4": 0, "ipv6": 1}
    instance = lab.create(plan_id=lab.call_admin("POST", "/instance/plans", six)["id"], hostname="six.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    shown = lab.get_instance(instance)
    assert shown["primary_public_ip"] is None
    address = shown["primary_public_ipv6"]["ip"]
    assert lab.ssh(address, "hostname").strip() == "six.example.com"
    shell = open_shell(lab, customer, shown)
    assert shell.run("hostname") == "six.example.com"
    assert shell.run("echo $SSH_CONNECTION").split()[2] == address
    lab.destroy(instance)


def test_consoles_continue_after_workers_are_killed(lab, customer, guest):
    """Open ones, and those that were created and not opened yet."""
    viewer, _ = customer.open_screen(customer.create_session(guest["id"]))
    shell = open_shell(lab, customer, guest)
    screen, token = customer.create_session(guest["id"]), create_shell_session(lab, guest)["token"]
    kill_processes(lab, "worker")
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    assert is_screen_live(customer.open_screen(screen)[0])
    assert Shell(customer.connect(f"/ssh/{token}")).run("hostname") == SAVED_HOSTNAME
    wait_until(
        lambda: customer.find_refusal(customer.create_session(guest["id"])) is None, "other workers to open a screen"
    )


def test_consoles_continue_after_redis_is_killed(lab, customer, guest):
    viewer, _ = customer.open_screen(customer.create_session(guest["id"]))
    shell = open_shell(lab, customer, guest)
    kill_processes(lab, "redis-server")
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    assert is_screen_live(customer.open_screen(customer.create_session(guest["id"]))[0])
    assert open_shell(lab, customer, guest).run("hostname") == SAVED_HOSTNAME


def test_consoles_continue_while_libvirt_daemon_is_dead(lab, customer, guest, hypervisor):
    """Open consoles do not need the daemon. New ones are refused, and open once the daemon is back."""
    viewer, _ = customer.open_screen(customer.create_session(guest["id"]))
    shell = open_shell(lab, customer, guest)
    daemon = int((hypervisor.directory / "run" / "libvirtd.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    assert "hypervisor" in customer.find_refusal(customer.create_session(guest["id"]))
    status, answer = lab.installation.call("POST", f"/api/instance/{guest['id']}/ssh-session", None, lab.token)
    assert (status, answer["success"]) == (503, False)
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    hypervisor.start()
    wait_until(lambda: lab.call_admin("GET", f"/hypervisor/{lab.node}")["status"] == "up", "the node")
    wait_until(lambda: customer.find_refusal(customer.create_session(guest["id"])) is None, "the screen to open again")
    assert open_shell(lab, customer, guest).run("hostname") == SAVED_HOSTNAME


def test_killed_guest_closes_its_consoles(lab, customer, guest, hypervisor):
    """At once, with a reason: the screen ends with the process, the shell when the node reports the power state."""
    viewer, _ = customer.open_screen(customer.create_session(guest["id"]))
    shell = open_shell(lab, customer, guest)
    os.kill(int(Path(hypervisor.directory, "run", "qemu", f"{guest['name']}.pid").read_text()), signal.SIGKILL)
    start = time.monotonic()
    code, reason = viewer.wait_until_closed()
    assert code in (1000, 1011)
    assert reason in ("The instance closed the console.", "The connection to the instance was lost.")
    assert shell.viewer.wait_until_closed() == (1008, "The instance was powered off.")
    assert time.monotonic() - start < 15
    lab.wait_for_state(guest, "stopped")
