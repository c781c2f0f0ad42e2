"""Inside the guest of tests/deployment/systemd.py: install the units as in the documents, and check them.

Each stage is one boot. It runs as a service of the guest, with only Python's standard library.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

from tests.deployment.operator_docs import read_block, read_settings
from tests.support import panel_client

STAGE_FILE = Path("/var/lib/unit-checks-stage")
SETTINGS_FILE = Path("/etc/panel/panel.env")
MANY_MACHINES_DOCUMENT, ONE_MACHINE_DOCUMENT = "install-many-machines.md", "install-one-machine.md"
PANEL_URL = "http://127.0.0.1:8000"
UNIT_NAMES = ["panel-web", "panel-console", "panel-worker@1", "panel-worker@2", "panel-schedule"]
WAIT_TIMEOUT_SECONDS = 1800
panel_client.TASK_TIMEOUT_SECONDS = panel_client.READY_TIMEOUT_SECONDS = WAIT_TIMEOUT_SECONDS
OPERATOR_PASSWORD = "correct-horse-battery-staple"


REMAINING_PROCESS_WARNINGS = ("left-over process", "remains running", "This usually indicates unclean termination")
"""Warnings of systemd about the local hypervisor, which keeps running when its unit stops."""


class CheckFailed(Exception):
    """A check failed."""


def run_shell(script, stdin="", check=True):
    """Run a script as root. Return what it printed."""
    process = subprocess.run(["bash", "-ec", script], input=stdin, text=True, capture_output=True)
    if check and process.returncode:
        raise CheckFailed(f"{script}\nended with {process.returncode}:\n{process.stdout}{process.stderr}")
    return process.stdout


def run_as_panel_user(script, stdin=""):
    """Run a script after the document's definitions for commands of the panel's user."""
    return run_shell(read_block(MANY_MACHINES_DOCUMENT, "Start", "set -a") + script, stdin)


def report(text):
    print(f"{time.monotonic():6.0f} s  {text}", flush=True)


def ensure(condition, problem):
    if not condition:
        raise CheckFailed(problem)


def fetch(path):
    """Request a path of the panel. Return status and text."""
    try:
        with urllib.request.urlopen(PANEL_URL + path, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def is_ready():
    try:
        return fetch("/readyz")[0] == 200
    except OSError:
        return False


def read_unit(unit):
    output = run_shell(f"systemctl show {unit} --property=ActiveState,Result,NRestarts,MainPID")
    return dict(line.split("=", 1) for line in output.splitlines())


def check_active(*units):
    for unit in units:
        properties = read_unit(unit)
        ensure(properties["ActiveState"] == "active" and properties["Result"] == "success", f"{unit}: {properties}")


def check_never_restarted(*units):
    for unit in units:
        ensure(read_unit(unit)["NRestarts"] == "0", f"{unit} has ended by itself")


def check_journal():
    """Check that the journal of the panel's units has no warning of systemd and no logged error."""
    lines = run_shell("journalctl --boot --quiet --unit='panel*' --priority=warning --output=cat").splitlines(
        keepends=True
    )
    problems = "".join(line for line in lines if not any(words in line for words in REMAINING_PROCESS_WARNINGS))
    for line in run_shell("journalctl --boot --quiet --unit='panel*' --output=cat").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("level") in ("error", "critical") or "Traceback" in line:
            problems += line + "\n"
    ensure(not problems, f"The journal has problems:\n{problems}")
    report("the journal has no error")


def check_shutdown():
    """Check that the units stopped without errors at the reboot, before database and Redis."""
    stage_start = STAGE_FILE.stat().st_mtime
    lines = run_shell(f"journalctl --boot=-1 --since=@{stage_start} --unit='panel*' --output=cat")
    ensure("Stopped" in lines, "The journal does not show how the units stopped")
    ensure('"warning"' not in lines and '"error"' not in lines, f"The units did not stop in good order:\n{lines}")
    report("the units stopped in good order before the reboot")


def check_pages():
    status, page = fetch("/sign-in")
    ensure(status == 200 and 'type="password"' in page, f"the sign-in page: {status} {page[:500]}")
    script = re.search(r'src="(/static/[^"]+\.js[^"]*)"', page)[1]
    ensure(fetch(script)[0] == 200, f"{script} is missing")
    report("the sign-in page and its scripts are served")


def check_ready():
    panel_client.wait_until(is_ready, "/readyz")
    report(f"/readyz: {fetch('/readyz')[1].strip()}")


def check_reload():
    """Check that no request fails while the web processes are replaced."""
    children = set(run_shell("pgrep --parent $(systemctl show --value --property=MainPID panel-web)").split())
    statuses, stopped = [], threading.Event()

    def request_pages():
        while not stopped.is_set():
            try:
                statuses.append(fetch("/healthz")[0])
            except OSError as error:
                statuses.append(error)

    thread = threading.Thread(target=request_pages)
    thread.start()
    run_shell("systemctl reload panel-web")

    def is_replaced():
        now = run_shell("pgrep --parent $(systemctl show --value --property=MainPID panel-web)", check=False).split()
        return len(now) == len(children) and not children & set(now)

    try:
        panel_client.wait_until(is_replaced, "new web processes")
    finally:
        stopped.set()
        thread.join()
    lost = [status for status in statuses if status != 200]
    ensure(statuses and not lost, f"requests were lost: {lost}")
    report(f"reload of panel-web: {len(statuses)} requests, none lost")


def check_recovery(unit):
    """Check that systemd restarts a unit whose main process was killed."""
    run_shell(f"systemctl kill --kill-whom=main --signal=KILL {unit}")

    def is_restarted():
        properties = read_unit(unit)
        return properties["NRestarts"] != "0" and properties["ActiveState"] == "active"

    panel_client.wait_until(is_restarted, f"{unit} after SIGKILL")


def check_many_machines():
    """Check all units of a distributed installation, with the distribution's PostgreSQL and Redis."""
    replaced = {
        "PANEL_DATABASE_URL": "postgresql://panel:password@127.0.0.1/panel",
        "PANEL_REDIS_URL": "redis://127.0.0.1:6379/0",
        "PANEL_MAIL_URL": None,
    }
    database = read_block(MANY_MACHINES_DOCUMENT, "Database", "createuser")
    run_shell(f"cd /; runuser --user postgres -- bash -ec '{database}'", "password\n" * 2)
    run_shell(read_block(MANY_MACHINES_DOCUMENT, "Settings", "install"))
    SETTINGS_FILE.write_text(read_settings(MANY_MACHINES_DOCUMENT, "Settings", replaced))
    SETTINGS_FILE.chmod(0o600)
    run_as_panel_user(read_block(MANY_MACHINES_DOCUMENT, "Start", "panel db upgrade"))
    report("the database has its tables")
    create_user = read_block(MANY_MACHINES_DOCUMENT, "Start", "panel user create").splitlines()[0]
    run_as_panel_user(create_user, f"{OPERATOR_PASSWORD}\n" * 2)
    run_as_panel_user("panel setup --simulated")
    run_as_panel_user("panel user create --email customer@example.com", f"{OPERATOR_PASSWORD}\n" * 2)
    report("created an operator, a customer and a simulated hypervisor")
    run_shell(read_block(MANY_MACHINES_DOCUMENT, "Start", "cp "))
    check_ready()
    check_active(*UNIT_NAMES)
    check_pages()
    token = run_as_panel_user("panel token user --email customer@example.com").strip()
    report(f"instance {panel_client.deploy(PANEL_URL, token)} was deployed by a worker")
    report(run_as_panel_user("panel doctor"))
    check_reload()
    for unit in UNIT_NAMES:
        run_shell(f"systemctl restart {unit}")
    check_ready()
    check_active(*UNIT_NAMES)
    check_never_restarted(*UNIT_NAMES)
    report("each unit was restarted")
    foreign_files = run_shell("find /var/lib/panel ! -user panel")
    ensure(not foreign_files, f"files of other users:\n{foreign_files}")
    check_journal()
    for unit in UNIT_NAMES:
        check_recovery(unit)
    check_ready()
    report("each unit came back after SIGKILL")


def check_many_machines_after_reboot():
    """Check that all units run after the reboot, and that they stop."""
    check_shutdown()
    check_ready()
    check_active(*UNIT_NAMES)
    check_never_restarted(*UNIT_NAMES)
    report(run_as_panel_user("panel doctor"))
    check_journal()
    run_shell("systemctl disable --now " + " ".join(UNIT_NAMES))
    for unit in UNIT_NAMES:
        properties = read_unit(unit)
        ensure(properties["ActiveState"] == "inactive" and properties["Result"] == "success", f"{unit}: {properties}")
    report("each unit has stopped in good order")
    check_one_machine()


def check_one_machine():
    """Check `panel up` as a unit, with SQLite and its own Redis."""
    check_make_run()
    replaced = {"PANEL_PUBLIC_URL": "http://localhost:8000", "PANEL_MAIL_URL": None}
    SETTINGS_FILE.write_text(read_settings(ONE_MACHINE_DOCUMENT, "Run it as a service", replaced))
    run_shell(read_block(ONE_MACHINE_DOCUMENT, "Run it as a service", "cp "))
    check_ready()
    report(run_shell(read_block(ONE_MACHINE_DOCUMENT, "Run it as a service", "set -a")))
    daemon = find_hypervisor_pid()
    run_shell("systemctl restart panel")
    check_ready()
    check_active("panel")
    check_never_restarted("panel")
    ensure(find_hypervisor_pid() == daemon, "the local hypervisor did not outlive a restart of the panel")
    report("the local hypervisor has outlived a restart of the panel")
    check_journal()


def find_hypervisor_pid():
    return run_shell("pgrep --exact libvirtd")


def check_make_run():
    """Set up and start the panel with `make run`, and stop it with Ctrl-C."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(["make", "run"], text=True, start_new_session=True, **pipes)
    panel_client.Output(process).wait_for("The panel is ready")
    os.killpg(process.pid, signal.SIGINT)
    ensure(process.wait(WAIT_TIMEOUT_SECONDS) in (0, -signal.SIGINT), "make run did not end in good order")


def check_one_machine_after_reboot():
    check_shutdown()
    check_ready()
    check_active("panel")
    check_pages()
    report(run_shell(read_block(ONE_MACHINE_DOCUMENT, "Run it as a service", "set -a")))
    run_shell("systemctl stop panel")
    properties = read_unit("panel")
    ensure(properties["ActiveState"] == "inactive" and properties["Result"] == "success", f"panel: {properties}")
    find_hypervisor_pid()
    check_journal()


STAGES = [check_many_machines, check_many_machines_after_reboot, check_one_machine_after_reboot]


def main():
    number = int(STAGE_FILE.read_text()) if STAGE_FILE.exists() else 0
    report(f"boot {number + 1} of {len(STAGES)}: {STAGES[number].__name__}")
    try:
        STAGES[number]()
    except (Exception, SystemExit) as error:
        print(traceback.format_exc() if not isinstance(error, CheckFailed) else f"FAILED: {error}")
        print(
            run_shell(
                "systemctl --no-pager status 'panel*'; journalctl --boot --lines=150 --unit='panel*'", check=False
            )
        )
        sys.stdout.flush()
        run_shell("systemctl poweroff")
        return
    STAGE_FILE.write_text(str(number + 1))
    if number + 1 == len(STAGES):
        report("All stages passed.")
    run_shell("sync; systemctl " + ("poweroff" if number + 1 == len(STAGES) else "reboot"))


if __name__ == "__main__":
    main()
