"""What the unmodified Python SDK raises when something is wrong or fails, and that nothing is left over (SBX-04).

One panel with a simulated hypervisor and its router, whose guests are local processes, for all tests of this module.
"""

import shutil
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxNotRunningException,
    SandboxUnreachableException,
    TimeoutException,
)

from tests.support.microvms import prepare_microvms
from tests.support.panel_processes import Customer, Installation
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from worker.engine.pool import HEARTBEAT_INTERVAL_SECONDS
from worker.engine.reaper import TASK_LEASE_SECONDS
from worker.nodes.base import NodeSpec
from worker.nodes.simulated import SimulatedNode

pytestmark = pytest.mark.processes

HUGE_SECONDS = 10**9
GONE_CLIENTS = 20


@pytest.fixture(scope="module")
def module_installation(fresh_installation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    shutil.copytree(fresh_installation[0].data_dir, folder, dirs_exist_ok=True)
    installation = Installation(folder, PANEL_WEB_WORKERS="1", PANEL_WORKERS="1")
    try:
        prepare_microvms(installation)
        installation.start_all()
        installation.env["PANEL_SANDBOX_BIND"] = f"127.0.0.1:{find_free_port()}"
        yield installation
    finally:
        installation.kill_processes()


@pytest.fixture(scope="module")
def owner(module_installation, fresh_installation):
    return Customer(module_installation, fresh_installation[1])


@pytest.fixture(scope="module")
def router(module_installation):
    """The router's process."""
    return start_router(module_installation)


def start_router(installation):
    count = count_router_starts(installation)
    command = [sys.executable, "-m", "tests.support.local_guests"]
    with (installation.data_dir / "router.log").open("a") as log:
        process = subprocess.Popen(command, env=installation.env, stdout=log, stderr=log)
    installation.running.insert(0, psutil.Process(process.pid))
    wait_until(lambda: count_router_starts(installation) > count, "the router")
    return psutil.Process(process.pid)


def count_router_starts(installation):
    path = installation.data_dir / "router.log"
    return path.read_text().count("sandbox_router_started") if path.exists() else 0


@pytest.fixture(scope="module")
def options(module_installation, owner, router):
    key = owner.call("POST", "/api/microvm/api-keys", {"name": "faults"})["key"]
    return {
        "api_url": f"{module_installation.url}/api/sbx",
        "api_key": key,
        "sandbox_url": f"http://{module_installation.env['PANEL_SANDBOX_BIND']}",
    }


@pytest.fixture(scope="module")
def sandbox(options):
    """A sandbox of the owner for the tests that leave it as it is."""
    sandbox = Sandbox.create(timeout=900, **options)
    yield sandbox
    sandbox.kill()


@pytest.fixture(scope="module")
def foreign_options(module_installation, options):
    """The options of another customer."""
    module_installation.run_panel("user", "create", "--email", "other@example.com", "--password", "a long password")
    token = module_installation.run_panel("token", "user", "--email", "other@example.com").strip()
    key = Customer(module_installation, token).call("POST", "/api/microvm/api-keys", {"name": "other"})["key"]
    return {**options, "api_key": key}


CALLS = {
    "get_info": lambda sandbox_id, options: Sandbox.get_info(sandbox_id, **options),
    "set_timeout": lambda sandbox_id, options: Sandbox.set_timeout(sandbox_id, 60, **options),
    "pause": lambda sandbox_id, options: Sandbox.pause(sandbox_id, **options),
    "connect": lambda sandbox_id, options: Sandbox.connect(sandbox_id, **options),
    "get_metrics": lambda sandbox_id, options: Sandbox.get_metrics(sandbox_id, **options),
}


@pytest.mark.parametrize("call", CALLS)
def test_unknown_and_foreign_sandboxes_are_not_found(sandbox, options, foreign_options, call):
    for sandbox_id, who in (("unknown", options), (sandbox.sandbox_id, foreign_options)):
        with pytest.raises(SandboxNotFoundException):
            CALLS[call](sandbox_id, who)


def test_foreign_key_neither_lists_nor_ends(sandbox, foreign_options):
    assert Sandbox.kill(sandbox.sandbox_id, **foreign_options) is False
    assert Sandbox.list(**foreign_options).next_items() == []
    assert sandbox.is_running()


@pytest.mark.parametrize("kind", ["revoked", "mistyped", "account token", "missing"])
def test_key_that_is_not_valid_is_refused(owner, sandbox, options, kind):
    created = owner.call("POST", "/api/microvm/api-keys", {"name": "revoked"})
    owner.call("POST", f"/api/microvm/api-key/{created['api_key']['id']}/revoke")
    keys = {"revoked": created["key"], "mistyped": options["api_key"][:-1] + "g", "account token": owner.token}
    invalid = {**options, "api_key": keys.get(kind, "")}
    for call in (Sandbox.create, lambda **invalid: Sandbox.list(**invalid).next_items()):
        with pytest.raises(AuthenticationException):
            call(**invalid)
    for call in (Sandbox.connect, Sandbox.get_info, Sandbox.pause, Sandbox.kill):
        with pytest.raises(AuthenticationException):
            call(sandbox.sandbox_id, **invalid)
    assert sandbox.is_running()


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"template": "no-such-template"}, 404),
        ({"metadata": {"location_id": "no-such-location"}}, 400),
        ({"timeout": 0}, 400),
        ({"timeout": -1}, 400),
        ({"timeout": HUGE_SECONDS}, 400),
        ({"metadata": {"": "no name"}}, 400),
        ({"envs": {"NAME": "a\0b"}}, 400),
    ],
)
def test_create_with_wrong_value_makes_nothing(sandbox, options, values, status):
    before = Sandbox.list(**options).next_items()
    with pytest.raises(SandboxException) as failure:
        Sandbox.create(**values, **options)
    assert (type(failure.value), failure.value.status_code) == (SandboxException, status)
    assert [row.sandbox_id for row in Sandbox.list(**options).next_items()] == [row.sandbox_id for row in before]


def test_huge_timeout_changes_nothing(sandbox):
    before = sandbox.get_info().end_at
    for seconds in (HUGE_SECONDS, 2**63):
        for call in (sandbox.set_timeout, lambda seconds: sandbox.connect(timeout=seconds)):
            with pytest.raises(SandboxException) as failure:
                call(seconds)
            assert failure.value.status_code == 400
    assert sandbox.get_info().end_at == before


def test_timeout_of_zero_ends_the_sandbox(module_installation, options):
    sandbox = Sandbox.create(timeout=900, **options)
    sandbox.set_timeout(0)
    check_ended(module_installation, sandbox)


def check_ended(installation, sandbox):
    """Check what the SDK raises and returns for a sandbox that has ended, and that nothing is left of it."""
    for call in (sandbox.get_info, lambda: sandbox.set_timeout(60), sandbox.pause, sandbox.connect):
        with pytest.raises(SandboxNotFoundException):
            call()
    for call in (lambda: sandbox.commands.run("true"), lambda: sandbox.files.read("/etc/hostname")):
        with pytest.raises(SandboxNotRunningException):
            call()
    assert sandbox.is_running() is False
    assert sandbox.kill() is False
    wait_until(lambda: not list_left(find_node(installation), sandbox), "the removal")


@pytest.mark.parametrize("token", [{}, {"X-Access-Token": "wrong"}])
def test_wrong_token_of_the_guest_is_refused(sandbox, options, token):
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983", **token}
    assert httpx.get(f"{options['sandbox_url']}/envs", headers=headers).status_code == 401
    assert sandbox.commands.run("echo served").stdout == "served\n"


def find_token(sandbox, options):
    url = f"{options['api_url']}/sandboxes/{sandbox.sandbox_id}/connect"
    answer = httpx.post(url, json={"timeout": 900}, headers={"X-API-Key": options["api_key"]})
    return answer.json()["envdAccessToken"]


def test_clients_that_leave_in_the_middle_of_a_stream_leave_nothing(module_installation, router, sandbox, options):
    """The command of a client that left goes on, as E2B's do."""
    assert sandbox.commands.run("true").exit_code == 0
    host, _, port = module_installation.env["PANEL_SANDBOX_BIND"].rpartition(":")
    before = count_sockets(router)
    running = len(sandbox.commands.list())
    body = b'{"process":{"cmd":"/bin/sleep","args":["77"]},"stdin":false}'
    message = b"\0" + len(body).to_bytes(4, "big") + body
    head = (
        "POST /process.Process/Start HTTP/1.1\r\nHost: sandbox\r\nContent-Type: application/connect+json\r\n"
        f"E2b-Sandbox-Id: {sandbox.sandbox_id}\r\nE2b-Sandbox-Port: 49983\r\n"
        f"X-Access-Token: {find_token(sandbox, options)}\r\nContent-Length: {len(message)}\r\n\r\n"
    )
    for _number in range(GONE_CLIENTS):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(head.encode() + message)
            assert b'"start"' in read_until(client, b'"start"')
    processes = [process for process in sandbox.commands.list() if process.args == ["77"]]
    assert len(processes) == GONE_CLIENTS
    for process in processes:
        assert sandbox.commands.kill(process.pid)
    wait_until(lambda: count_sockets(router) <= before, "the end of the connections")
    wait_until(lambda: len(sandbox.commands.list()) == running, "the end of the commands")


def read_until(client, text):
    data = b""
    while text not in data and (piece := client.recv(65536)):
        data += piece
    return data


def count_sockets(process):
    return len(process.net_connections("inet"))


def test_killed_processes_of_the_panel_end_no_command(module_installation, sandbox):
    command = sandbox.commands.run("echo begun; read line; echo $line", background=True, stdin=True)
    assert next(iter(command)) == ("begun\n", None, None)
    for name in ("worker", "console", "schedule"):
        processes = module_installation.list_children(name)
        assert processes, name
        for process in processes:
            process.kill()
    sandbox.commands.send_stdin(command.pid, "survived\n")
    assert command.wait().stdout.endswith("survived\n")
    wait_until(lambda: module_installation.list_children("worker"), "another worker")
    assert Sandbox.list(**sandbox.connection_config.get_api_params()).next_items()


def test_create_of_a_killed_worker_goes_on_before_its_lease_ends(module_installation, options):
    node = find_node(module_installation)
    node.fault("create_disk", "slow", 1, seconds=600)
    try:
        sandbox = Sandbox.create(timeout=900, **options)
        wait_until(lambda: not node.faults(), "the call that takes long")
        (worker,) = module_installation.list_children("worker")
        began_at = time.monotonic()
        worker.kill()
        assert sandbox.commands.run("true").exit_code == 0
        assert time.monotonic() - began_at < TASK_LEASE_SECONDS - HEARTBEAT_INTERVAL_SECONDS
    finally:
        node.clear()
    assert sandbox.kill() is True


def test_lost_node_ends_the_sandbox_when_it_is_back(module_installation, options):
    node = find_node(module_installation)
    sandbox = Sandbox.create(timeout=900, **options)
    assert sandbox.commands.run("true").exit_code == 0
    node.fault("*", "silent")
    try:
        assert sandbox.kill() is True
        with pytest.raises(SandboxNotFoundException):
            sandbox.get_info()
        with pytest.raises(SandboxNotRunningException):
            sandbox.commands.run("true")
        assert sandbox.is_running() is False
    finally:
        node.clear()
    wait_until(lambda: not list_left(node, sandbox), "the removal")


def test_sandbox_of_an_unreachable_node_can_be_used_when_it_is_back(module_installation, options):
    node = find_node(module_installation)
    node.fault("open_channel", "lost-answer")
    try:
        sandbox = Sandbox.create(timeout=900, **options)
        for call in (lambda: sandbox.commands.run("true"), lambda: sandbox.files.read("/etc/hostname")):
            with pytest.raises(SandboxUnreachableException):
                call()
        assert sandbox.get_info().sandbox_id == sandbox.sandbox_id
    finally:
        node.clear()
    wait_until(sandbox.is_running, "the next attempt of the router")
    assert sandbox.commands.run("true").exit_code == 0
    assert sandbox.kill() is True
    check_ended(module_installation, sandbox)


def test_expiry_ends_a_command(module_installation, options):
    sandbox = Sandbox.create(timeout=900, **options)
    command = sandbox.commands.run("sleep 1000", background=True)
    sandbox.set_timeout(1)
    with pytest.raises(SandboxNotRunningException):
        command.wait()
    check_ended(module_installation, sandbox)


def test_killed_daemon_is_reported_as_a_port_that_is_not_open(router, options):
    """In a real sandbox it is started again (tests/guests/test_sandbox.py)."""
    before = set(router.children())
    sandbox = Sandbox.create(timeout=900, **options)
    command = sandbox.commands.run("sleep 1000", background=True)
    (guest,) = set(router.children()) - before
    (daemon,) = [process for process in guest.children(recursive=True) if process.exe() == psutil.Process().exe()]
    daemon.kill()
    with pytest.raises(SandboxUnreachableException):
        command.wait()
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true", request_timeout=2)
    assert sandbox.kill() is True
    wait_until(lambda: set(router.children()) <= before, "the end of its processes")


def test_failed_command_is_no_fault(sandbox):
    with pytest.raises(CommandExitException) as failure:
        sandbox.commands.run("exit 3")
    assert failure.value.exit_code == 3


def test_load_and_log_reach_the_sdk(sandbox, options):
    (metric, *_) = wait_until(sandbox.get_metrics, "a sample")
    assert 0 < metric.mem_used < metric.mem_total
    assert 0 < metric.disk_used < metric.disk_total
    sandbox.commands.run("echo for the log", envs={"PASSWORD": "a secret value"})
    url = f"{options['api_url']}/v2/sandboxes/{sandbox.sandbox_id}/logs?search=Process"
    log = wait_until(
        lambda: (
            (text := httpx.get(url, headers={"X-API-Key": options["api_key"]}).text).count("for the log") == 2 and text
        ),
        "the entries of its log",
    )
    assert "secret" not in log


def test_nothing_is_left_when_all_sandboxes_have_ended(module_installation, router, options):
    """The last test: everything that the others made ends, on the node and in the router."""
    for row in Sandbox.list(**options).next_items():
        Sandbox.kill(row.sandbox_id, **options)
    node = find_node(module_installation)
    wait_until(lambda: not list_machines(node), "the removal")
    wait_until(lambda: not router.children(), "the end of all daemons")
    log = (module_installation.data_dir / "router.log").read_text()
    assert "Traceback" not in log, log


def find_node(installation):
    (path,) = (installation.data_dir / "simulated").glob("*.db")
    return SimulatedNode(NodeSpec(path.stem, "simulated", "simulated", "simulated://"), installation.data_dir)


def list_machines(node):
    return [machine.id for machine in node.machines()] + [
        disk.name for disk in node.disks("default") if disk.name.startswith("m-")
    ]


def list_left(node, sandbox):
    return [name for name in list_machines(node) if sandbox.sandbox_id in name]
