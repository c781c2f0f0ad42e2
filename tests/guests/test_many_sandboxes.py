"""A hundred sandboxes on a real node, ten at a time, from a warm pool as far as it has members (SBX-03)."""

import contextlib
import json
import sqlite3
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import Sandbox, SandboxUnreachableException

from tests.guests.sandbox_inventory import count_open_files, list_rows, take_inventory
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.guest, pytest.mark.slow_proof("sandboxes")]

ROUNDS, PARALLEL, POOL_MEMBERS = 10, 10, 4
MAX_OPEN_FILES_MORE = 50
"""Open files of a process more than before: connections to the node that are kept for the next calls."""

KINDS_OF_A_RUNNING_SANDBOX = set(
    ["file", "machine", "filter", "binding", "interface", "chain", "process", "control", "router", "rows", "capacity"]
)
CPU_OVERCOMMIT = 32
"""For ten sandboxes, those that are being removed and the pool on a machine of two processors."""


@pytest.fixture
def roomy_node(lab, sandbox_options):
    """The node offers sandboxes internet access, so that each has a network interface, and has processors for them."""
    (profile,) = lab.call_admin("GET", "/microvm/profiles")
    lab.call_admin("PATCH", f"/microvm/profile/{profile['id']}", {"allows_internet_access": True})
    overcommit = lab.call_admin("GET", f"/hypervisor/{lab.node}")["cpu_overcommit"]
    lab.call_admin("PATCH", f"/hypervisor/{lab.node}", {"cpu_overcommit": CPU_OVERCOMMIT})
    yield lab.node
    lab.call_admin("PATCH", f"/hypervisor/{lab.node}", {"cpu_overcommit": overcommit})
    lab.call_admin("PATCH", f"/microvm/profile/{profile['id']}", {"allows_internet_access": False})


def use_sandbox(sandbox_options):
    """Create a sandbox, execute a command and kill it. Return its id and the seconds until it was usable."""
    started_at = time.monotonic()
    sandbox = Sandbox.create(timeout=900, **sandbox_options)
    try:
        wait_until(lambda: can_execute(sandbox), "the sandbox")
        seconds = time.monotonic() - started_at
    finally:
        assert sandbox.kill() is True
    return sandbox.sandbox_id, seconds


def can_execute(sandbox):
    """Execute a command. On a busy machine a boot may take longer than the router waits for the guest."""
    with contextlib.suppress(SandboxUnreachableException):
        return sandbox.commands.run("true", timeout=200).exit_code == 0


def list_warm_ids(lab):
    """Return the ids of the sandboxes that were members of the pool."""
    with contextlib.closing(sqlite3.connect(lab.installation.data_dir / "panel.db", timeout=60)) as database:
        rows = database.execute(
            "select sandbox_id, arguments from microvms join tasks on resource_id = microvms.id "
            "where kind = 'microvm_create'"
        ).fetchall()
    return {sandbox_id for sandbox_id, arguments in rows if json.loads(arguments)["is_warm"]}


def test_hundred_sandboxes_leave_nothing(lab, hypervisor, roomy_node, sandbox_options):
    sandbox = Sandbox.create(timeout=900, **sandbox_options)
    wait_until(lambda: can_execute(sandbox), "the sandbox")
    during = take_inventory(lab, hypervisor)
    sandbox.kill()  # the image's files and the network remain on the node
    wait_until(lambda: {"rows of microvms: 0", "rows of tasks: 0"} <= set(list_rows(lab)), "the removal")
    before, open_files = take_inventory(lab, hypervisor), count_open_files(lab, hypervisor)
    assert {name.partition(" ")[0] for name in during - before} == KINDS_OF_A_RUNNING_SANDBOX
    image = next(row["id"] for row in lab.call("GET", "/api/microvm/images")["data"] if row["name"] == "sandbox")
    body = {"hypervisor_id": roomy_node, "image_id": image, "count": POOL_MEMBERS}
    pool = lab.call_admin("POST", "/microvm/pools", body)["id"]
    wait_until(lambda: lab.call_admin("GET", f"/microvm/pool/{pool}")["ready"], "the warm pool")

    uses = []
    with ThreadPoolExecutor(PARALLEL) as executor:
        for _round in range(ROUNDS):
            uses += executor.map(use_sandbox, [sandbox_options] * PARALLEL)
    lab.call_admin("DELETE", f"/microvm/pool/{pool}")

    with contextlib.suppress(AssertionError):
        wait_until(lambda: take_inventory(lab, hypervisor) == before, "the removal")
    assert take_inventory(lab, hypervisor) == before
    for process, count in count_open_files(lab, hypervisor).items():
        assert count < open_files[process] + MAX_OPEN_FILES_MORE, process
    warm_ids = list_warm_ids(lab)
    warm = [seconds for sandbox_id, seconds in uses if sandbox_id in warm_ids]
    cold = [seconds for sandbox_id, seconds in uses if sandbox_id not in warm_ids]
    assert len(warm) + len(cold) == ROUNDS * PARALLEL
    for kind, times in (("warm", warm), ("cold", cold)):
        assert times, kind
        print(f"{len(times)} {kind}: median {statistics.median(times):.1f} s, worst {max(times):.1f} s")
    log = lab.installation.read_log("sandbox")
    assert "Traceback" not in log, log
