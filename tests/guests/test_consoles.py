"""Screens and shells of a real guest while parts of the installation, the node's daemon and the guest itself die."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.guests.console_user import ConsoleUser, Shell, is_screen_live
from tests.processes.conftest import wait_until
from tests.support.installation import CUSTOMER_EMAIL, CUSTOMER_PASSWORD

pytestmark = pytest.mark.guest


@pytest.fixture(scope="module")
def person(lab):
    return ConsoleUser(lab.at, CUSTOMER_EMAIL, CUSTOMER_PASSWORD)


@pytest.fixture(scope="module")
def guest(lab):
    instance = lab.create(display_name="Consoles", hostname="consoles.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    shown = lab.show(instance)
    assert lab.ssh(shown["primary_public_ip"]["ip"], "echo up").strip() == "up"
    yield shown
    lab.destroy(instance)


def create_shell_session(lab, guest):
    return lab.call("POST", f"/api/instance/{guest['id']}/ssh-session")


def open_shell(lab, person, guest):
    return Shell(person.connect(f"/ssh/{create_shell_session(lab, guest)['token']}"))


def kill(lab, name):
    """Kills the parts of that name, and waits until others have taken their place."""
    before = {process.pid for process in lab.at.parts(name)}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len({process.pid for process in lab.at.parts(name)} - before) == len(before), f"another {name}")


def test_the_screen_and_the_shell_are_the_guest_s(lab, person, guest):
    """CON-06, SSH-07."""
    viewer, title = person.open_screen(person.create_session(guest["id"]))
    assert title == f"QEMU ({guest['name']})"
    assert is_screen_live(viewer)
    assert open_shell(lab, person, guest).run("hostname") == "consoles.example.com"


def test_a_guest_without_ipv4_has_a_shell(lab, person):
    """SSH-07: by its IPv6 address."""
    group = lab.call("GET", f"/api/cloud-service/location/{lab.location}/plan-groups")[0]["id"]
    six = {"name": "Six", "plan_group_id": group, "cpu_cores": 1, "ram": 256, "storage": 1, "ipv4": 0, "ipv6": 1}
    instance = lab.create(plan_id=lab.admin("POST", "/instance/plans", six)["id"], hostname="six.example.com")
    lab.install(instance, ssh_keys=[lab.key_id])
    shown = lab.show(instance)
    assert shown["primary_public_ip"] is None
    address = shown["primary_public_ipv6"]["ip"]
    assert lab.ssh(address, "hostname").strip() == "six.example.com"
    shell = open_shell(lab, person, shown)
    assert shell.run("hostname") == "six.example.com"
    assert shell.run("echo $SSH_CONNECTION").split()[2] == address
    lab.destroy(instance)


def test_workers_that_are_killed_disturb_no_console(lab, person, guest):
    """Neither those that are open nor those that were created and not opened yet."""
    viewer, _ = person.open_screen(person.create_session(guest["id"]))
    shell = open_shell(lab, person, guest)
    screen, token = person.create_session(guest["id"]), create_shell_session(lab, guest)["token"]
    kill(lab, "worker")
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    assert is_screen_live(person.open_screen(screen)[0])
    assert Shell(person.connect(f"/ssh/{token}")).run("hostname") == "consoles.example.com"
    wait_until(
        lambda: person.find_refusal(person.create_session(guest["id"])) is None, "other workers to open a screen"
    )


def test_a_redis_that_is_killed_disturbs_no_console(lab, person, guest):
    viewer, _ = person.open_screen(person.create_session(guest["id"]))
    shell = open_shell(lab, person, guest)
    kill(lab, "redis-server")
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    assert is_screen_live(person.open_screen(person.create_session(guest["id"]))[0])
    assert open_shell(lab, person, guest).run("hostname") == "consoles.example.com"


def test_a_node_whose_daemon_is_cut_off(lab, person, guest, hypervisor):
    """What is open goes on, for it does not need the daemon; what is opened anew is told; and opens when it is back."""
    viewer, _ = person.open_screen(person.create_session(guest["id"]))
    shell = open_shell(lab, person, guest)
    daemon = int((hypervisor.directory / "run" / "libvirtd.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    assert "hypervisor" in person.find_refusal(person.create_session(guest["id"]))
    status, answer = lab.at.call("POST", f"/api/instance/{guest['id']}/ssh-session", None, lab.token)
    assert (status, answer["success"]) == (503, False)
    assert is_screen_live(viewer)
    assert shell.run("echo $((6*7))") == "42"
    hypervisor.start()
    wait_until(lambda: lab.admin("GET", f"/hypervisor/{lab.node}")["status"] == "up", "the node")
    wait_until(lambda: person.find_refusal(person.create_session(guest["id"])) is None, "the screen to open again")
    assert open_shell(lab, person, guest).run("hostname") == "consoles.example.com"


def test_a_guest_that_is_killed_closes_its_consoles(lab, person, guest, hypervisor):
    """With a word, and at once: the screen was the killed process's, the shell's end is seen by what the node says."""
    viewer, _ = person.open_screen(person.create_session(guest["id"]))
    shell = open_shell(lab, person, guest)
    os.kill(int(Path(hypervisor.directory, "run", "qemu", f"{guest['name']}.pid").read_text()), signal.SIGKILL)
    began = time.monotonic()
    code, reason = viewer.ended()
    assert code in (1000, 1011)
    assert reason in ("The instance closed the console.", "The connection to the instance was lost.")
    assert shell.viewer.ended() == (1008, "The instance was powered off.")
    assert time.monotonic() - began < 15
    lab.wait_for_state(guest, "stopped")
