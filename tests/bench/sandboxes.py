"""Sandboxes: from the create to the first answer of a command, and files, against scripts without the panel.

- Warm: the SDK creates a sandbox from the warm pool and runs `true`. The script restores such a state through libvirt,
  sets an identity and runs the same command. Target: at most 1.5 times the time of the script.
- Cold: the same without a pool. The script creates the disk and boots the machine. Target: at most 1.3 times.
- Files: `files.write` and `files.read` of 16 MiB by the SDK, against the same bytes through the bare channel, between a
  file of the guest and this process. Target: at least half as fast.

Panel and script take turns on one hypervisor. The pool is not refilled meanwhile, and each start waits until
the machine of the one before is removed.
"""

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from e2b import Sandbox

from panel.core.config import ROOT
from tests.bench.sandbox_script import ScriptSandboxes
from tests.support.installation import create_template, run_installation
from tests.support.local_hypervisor import LocalHypervisor, claim_network
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from worker.nodes.libvirt import private_daemon

WARM_ROUNDS, COLD_ROUNDS, FILE_ROUNDS = 5, 2, 5
FILE_BYTES = 16 * 1024 * 1024
SETTLE_SECONDS = 2
QUICK_SIZES = {"SETTLE_SECONDS": 0, "WARM_ROUNDS": 1, "COLD_ROUNDS": 1, "FILE_ROUNDS": 1, "FILE_BYTES": 1024 * 1024}
MEBIBYTE = 1024 * 1024


def bench(report):
    directory = Path(tempfile.mkdtemp(prefix="bench"))
    network = claim_network()
    cache = ROOT / "var" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        hypervisor = LocalHypervisor(private_daemon.start(directory / "hv", network), directory / "hv", network)
        (directory / "template").mkdir()
        template = create_template(directory / "template", cache)
        bind = f"127.0.0.1:{find_free_port()}"
        with run_installation(directory / "lab", hypervisor, template, PANEL_SANDBOX_BIND=bind) as lab:
            panel = PanelSandboxes(lab, bind)
            panel.wait_for_members(1)
            script = ScriptSandboxes(lab, hypervisor)
            panel.wait_for_members(WARM_ROUNDS)
            with panel.stop_scheduler():
                measure_creates(report, "warm create to the first command", panel, script, "warm", WARM_ROUNDS, 1.5)
                measure_creates(report, "cold create to the first command", panel, script, "cold", COLD_ROUNDS, 1.3)
                measure_files_against_channel(report, panel, script)
    finally:
        private_daemon.stop(directory / "hv")
        shutil.rmtree(directory, ignore_errors=True)


def measure_creates(report, what, panel, script, kind, rounds, maximum):
    times = [[measure_start(side, kind) for side in (script, panel)] for _ in range(rounds)]
    script_time, panel_time = map(statistics.median, zip(*times, strict=True))
    print(f"  {what}: panel {panel_time:.2f} s, script {script_time:.2f} s", flush=True)
    report(f"{what}, against a libvirt script", panel_time / script_time, maximum)


def measure_start(side, kind):
    time.sleep(SETTLE_SECONDS)
    return getattr(side, f"start_{kind}")()


def measure_files_against_channel(report, panel, script):
    data = os.urandom(FILE_BYTES)
    with panel.open_sandbox() as sandbox:
        rounds = [(*measure_files(sandbox, data), *script.measure_channel(data)) for _ in range(FILE_ROUNDS)]
    speeds = [len(data) / statistics.median(times) / MEBIBYTE for times in zip(*rounds, strict=True)]
    for what, panel_speed, raw_speed in zip(("write", "read"), speeds[:2], speeds[2:], strict=True):
        print(f"  files.{what}: {panel_speed:.1f} MiB/s, bare channel {raw_speed:.1f} MiB/s", flush=True)
        report(f"files.{what} of 16 MiB, against the bare channel", panel_speed / raw_speed, minimum=0.5)


def measure_files(sandbox, data):
    started_at = time.perf_counter()
    sandbox.files.write("data", data)
    written_at = time.perf_counter()
    assert sandbox.files.read("data", format="bytes") == data
    return written_at - started_at, time.perf_counter() - written_at


class PanelSandboxes:
    """Creates sandboxes with the SDK, as a customer does."""

    def __init__(self, lab, bind):
        self.lab = lab
        lab.installation.run_panel("image", "build", "sandbox")
        lab.call_admin("POST", "/microvm/profiles", {"hypervisor_id": lab.node})
        image = lab.call("GET", "/api/microvm/images")["data"][0]["id"]
        pool = {"hypervisor_id": lab.node, "image_id": image, "count": WARM_ROUNDS}
        self.pool = lab.call_admin("POST", "/microvm/pools", pool)["id"]
        self.options = {
            "api_url": f"{lab.installation.url}/api/sbx",
            "api_key": lab.call("POST", "/api/microvm/api-keys", {"name": "bench"})["key"],
            "sandbox_url": f"http://{bind}",
            "request_timeout": 200,
        }

    def wait_for_members(self, count):
        path = f"/microvm/pool/{self.pool}"
        wait_until(lambda: self.lab.call_admin("GET", path)["ready"] >= count, "the warm pool")

    @contextlib.contextmanager
    def stop_scheduler(self):
        """Pause the process that refills pools."""
        processes = [process for process in self.lab.installation.list_processes() if "schedule" in process.cmdline()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def start_warm(self):
        started_at = time.perf_counter()
        sandbox = Sandbox.create(timeout=900, **self.options)
        sandbox.commands.run("true")
        seconds = time.perf_counter() - started_at
        sandbox.kill()
        return seconds

    start_cold = start_warm  # the pool is empty by then

    @contextlib.contextmanager
    def open_sandbox(self):
        sandbox = Sandbox.create(timeout=900, **self.options)
        sandbox.commands.run("true")
        yield sandbox
        sandbox.kill()
