"""The unmodified Python SDK of E2B in real micro VMs from a warm pool, through a running panel and its router."""

import contextlib
import re
import subprocess
import time

import httpx
import libvirt
import pytest
from e2b import PtySize, Sandbox, SandboxException, SandboxNotFoundException, TimeoutException
from httpx import HTTPError

from tests.guests.sandbox_router import start_router
from tests.support.waiting import wait_until

pytestmark = pytest.mark.guest

KILL_DAEMON = (
    "sleep 0.2; for pid in $(pidof python3); do [[ $(</proc/$pid/cmdline) == *sandbox_guest* ]] && kill -9 $pid; done"
)


@pytest.fixture(scope="module")
def sandboxes(lab, sandbox_options):
    """Two sandboxes of a pool that has one member at a time: it was refilled in between."""
    images = lab.call("GET", "/api/microvm/images")["data"]
    image = next(row["id"] for row in images if row["name"] == "sandbox")
    pool = lab.call_admin("POST", "/microvm/pools", {"hypervisor_id": lab.node, "image_id": image, "count": 1})
    taken = []
    for _ in range(2):
        member = wait_for_member(lab, pool)
        taken.append(Sandbox.create(timeout=900, envs={"MODE": "test"}, **sandbox_options))
        assert taken[-1].sandbox_id == member
    lab.call_admin("DELETE", f"/microvm/pool/{pool['id']}")
    yield taken
    for sandbox in taken:
        sandbox.kill()


def wait_for_member(lab, pool):
    """Return the sandbox id of the pool's member when it is ready: that of the machine with a saved state."""
    path = f"/microvm/pool/{pool['id']}"
    wait_until(lambda: lab.call_admin("GET", path)["ready"], "the warm pool")
    with contextlib.closing(libvirt.open(lab.call_admin("GET", f"/hypervisor/{lab.node}")["uri"])) as connection:
        saved = [domain.name() for domain in connection.listAllDomains() if domain.hasManagedSaveImage()]
    return next(name.removeprefix("m-") for name in saved if name.startswith("m-"))


FACTS_COMMAND = """
cat /etc/machine-id; hostname; od -An -N16 -tx1 /dev/urandom; cat /proc/sys/kernel/random/uuid
python3 -c 'import random, uuid; print(random.random()); print(uuid.uuid4())'
"""


def test_sandboxes_of_a_pool_share_nothing(sandboxes):
    facts = [sandbox.commands.run(FACTS_COMMAND).stdout.splitlines() for sandbox in sandboxes]
    assert len(facts[0]) == 6
    assert all(first != second for first, second in zip(*facts, strict=True)), facts
    for sandbox in sandboxes:
        assert abs(int(sandbox.commands.run("date +%s").stdout) - time.time()) < 60


def test_token_of_another_sandbox_is_refused(sandboxes, sandbox_options):
    tokens = [find_token(sandbox, sandbox_options) for sandbox in sandboxes]
    assert tokens[0] != tokens[1]
    headers = {"E2b-Sandbox-Id": sandboxes[1].sandbox_id, "E2b-Sandbox-Port": "49983"}
    for token, status in ((tokens[0], 401), ("", 401), (tokens[1], 200)):
        answer = httpx.get(f"{sandbox_options['sandbox_url']}/envs", headers={**headers, "X-Access-Token": token})
        assert answer.status_code == status


def find_token(sandbox, sandbox_options):
    url = f"{sandbox_options['api_url']}/sandboxes/{sandbox.sandbox_id}/connect"
    answer = httpx.post(url, json={"timeout": 900}, headers={"X-API-Key": sandbox_options["api_key"]})
    return answer.json()["envdAccessToken"]


def test_sdk_uses_a_sandbox(lab, hypervisor, sandbox_options, sandboxes):
    """SBX-03, SBX-08"""
    sandbox = sandboxes[0]
    try:
        use_sandbox(sandbox)
        start_router(lab)
        command = sandbox.commands.run("cat note.txt; sleep 1000", background=True)
        assert next(iter(command)) == ("a note\n", None, None)
        sandbox.pause()
        with pytest.raises((SandboxException, HTTPError)):
            command.wait()
        assert sandbox.is_running() is False
        with pytest.raises(TimeoutException):
            sandbox.commands.run("true")
        connected = Sandbox.connect(sandbox.sandbox_id, timeout=900, **sandbox_options)
        assert connected.commands.run("cat note.txt; echo $MODE").stdout == "a note\ntest\n"
        assert abs(int(connected.commands.run("date +%s").stdout) - time.time()) < 60
    finally:
        sandbox.kill()
    assert sandbox.is_running() is False
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true")
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    log = lab.installation.read_log("sandbox")
    assert "Traceback" not in log, log
    wait_until(lambda: not list_machine_files(hypervisor, sandbox), "the removal")


def test_sandbox_survives_faults_until_its_time_is_over(lab, hypervisor, sandbox_options):
    """What it reports; its daemon and the worker are killed; its time ends during a command."""
    sandbox = Sandbox.create(timeout=900, **sandbox_options)
    try:
        sandbox.commands.run("echo $PASSWORD; exit 0", envs={"PASSWORD": "a secret value"})
        (metric, *_) = wait_until(sandbox.get_metrics, "a sample of its load")
        assert 0 < metric.mem_used < metric.mem_total < 2**30
        assert 0 < metric.disk_used < metric.disk_total
        assert metric.mem_cache > 0
        wait_until(lambda: "Process ended" in read_log(sandbox_options, sandbox), "the entries of its log")

        command = sandbox.commands.run("sleep 1000", background=True, timeout=0)
        sandbox.commands.run(f"sudo bash -c '{KILL_DAEMON}' >/dev/null 2>&1 &")
        with pytest.raises((SandboxException, HTTPError)):
            command.wait()
        assert sandbox.commands.run("echo again").stdout == "again\n"
        wait_until(lambda: read_log(sandbox_options, sandbox).count("Daemon started") == 2, "the daemon's new start")

        for worker in lab.installation.list_children("worker"):
            worker.kill()
        assert sandbox.commands.run("echo and again").stdout == "and again\n"

        log = read_log(sandbox_options, sandbox)
        assert "secret" not in log
        assert "Identity applied" in log
        command = sandbox.commands.run("sleep 1000", background=True, timeout=0)
        sandbox.set_timeout(2)
        with pytest.raises((SandboxException, HTTPError)):
            command.wait()
    except BaseException:
        sandbox.kill()
        raise
    assert sandbox.is_running() is False
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true")
    wait_until(lambda: not list_machine_files(hypervisor, sandbox), "the removal")
    assert sandbox.kill() is False
    log = lab.installation.read_log("sandbox")
    assert "Traceback" not in log, log


def read_log(sandbox_options, sandbox):
    """Return the text of the sandbox's log."""
    url = f"{sandbox_options['api_url']}/v2/sandboxes/{sandbox.sandbox_id}/logs"
    answer = httpx.get(url, headers={"X-API-Key": sandbox_options["api_key"]})
    assert answer.status_code == 200, answer.text
    return answer.text


def list_machine_files(hypervisor, sandbox):
    with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
        names = [domain.name() for domain in connection.listAllDomains()]
    names += [path.name for path in (hypervisor.directory / "disks").iterdir()]
    return [name for name in names if sandbox.sandbox_id in name]


def use_sandbox(sandbox):
    assert sandbox.commands.run("echo hi; echo $MODE").stdout == "hi\ntest\n"
    assert sandbox.is_running() is True
    sandbox.files.write("note.txt", "a note\n")
    assert sandbox.files.read("note.txt") == "a note\n"
    terminal = sandbox.pty.create(PtySize(rows=30, cols=90))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    output = []
    terminal.wait(on_pty=output.append)
    assert b"30 90\r\n" in b"".join(output)


def build_image(lab, **values):
    """Build an image from the image `sandbox` and wait for its end. Return image and build."""
    source = next(row["id"] for row in lab.call("GET", "/api/microvm/images")["data"] if row["name"] == "sandbox")
    image_id = lab.call("POST", "/api/microvm/images", {"image_id": source, **values})["image"]["id"]
    path = f"/api/microvm/image/{image_id}"
    wait_until(lambda: lab.call("GET", path)["image"]["status"] != "building", "the build")
    return lab.call("GET", path)


def list_build_files(hypervisor):
    with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
        names = [domain.name() for domain in connection.listAllDomains()]
    names += [path.name for path in (hypervisor.directory / "disks").iterdir()]
    return [name for name in names if "build" in name]


BUILD_COMMANDS = [
    "mkdir -p /srv && echo written by a command >/srv/note.txt && echo typed >/root/.bash_history",
    "python3 -c 'print(6 * 7)'; echo 0123456789abcdef0123456789abcdef >/etc/machine-id",
    "cat /run/sandbox/identity.json",
]


def test_sdk_uses_an_image_that_was_built(lab, hypervisor, sandbox_options, tmp_path):
    """The image has what the commands wrote, and nothing that identifies the machine that executed them."""
    built = build_image(lab, name="web-app", commands=BUILD_COMMANDS, envs={"MODE": "image"})
    assert built["image"]["status"] == "available", built["build"]
    log = built["build"]["log"]
    assert "\n42\n" in log
    assert list_build_files(hypervisor) == []
    sandbox = Sandbox.create(template="web-app", timeout=900, **sandbox_options)
    try:
        assert sandbox.files.read("/srv/note.txt") == "written by a command\n"
        assert sandbox.commands.run("echo $MODE").stdout == "image\n"
    finally:
        sandbox.kill()
    disk = lab.installation.data_dir / f"images/microvm-{built['image']['id']}.qcow2"
    raw = tmp_path / "raw"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", disk, raw], check=True)
    subprocess.run(["/sbin/e2fsck", "-fn", raw], check=True, capture_output=True)
    assert run_debugfs(raw, "cat /etc/machine-id") == ""
    assert run_debugfs(raw, "cat /etc/hostname") == "sandbox\n"
    assert "identity" not in run_debugfs(raw, "ls -p /run")
    assert "bash_history" not in run_debugfs(raw, "ls -p /root")
    token = re.search('"access_token": "([0-9a-f]{64})"', log)[1]
    assert token.encode() not in raw.read_bytes()


def run_debugfs(raw, request):
    return subprocess.run(["/sbin/debugfs", "-R", request, raw], check=True, capture_output=True, text=True).stdout


def test_failing_command_fails_image_with_its_log(lab, hypervisor, sandbox_options):
    failed = build_image(lab, name="broken", commands=["echo before", "echo output; exit 3", "echo never"])
    assert failed["image"]["status"] == "failed"
    assert (failed["build"]["command_number"], failed["build"]["exit_code"]) == (2, 3)
    assert failed["build"]["error"] == "Command 2 ended with exit code 3: output"
    assert failed["build"]["log"] == "$ echo before\nbefore\n$ echo output; exit 3\noutput\n"
    assert list_build_files(hypervisor) == []
