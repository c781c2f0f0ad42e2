"""Inside the guest of tests/deployment/systemd.py: install the units as the documents say, and check them.

Each stage is one boot. It starts as a service of the guest, with nothing but Python's own library.
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
from tests.fresh import first_run

STAGE_FILE = Path("/var/lib/unit-checks-stage")
SETTINGS_FILE = Path("/etc/panel/panel.env")
MANY_MACHINES, ONE_MACHINE = "install-many-machines.md", "install-one-machine.md"
URL = "http://127.0.0.1:8000"
UNITS = ["panel-web", "panel-console", "panel-worker@1", "panel-worker@2", "panel-schedule"]
WAIT_TIMEOUT_SECONDS = 1800
first_run.TASK_TIMEOUT_SECONDS = first_run.READY_TIMEOUT_SECONDS = WAIT_TIMEOUT_SECONDS
OPERATOR_PASSWORD = "correct-horse-battery-staple"


LEFT_RUNNING = ("left-over process", "remains running", "This usually indicates unclean termination")
"""What systemd says about the local hypervisor, which outlives its unit."""


class CheckFailed(Exception):
    """Something did not do what the documents say."""


def shell(script, stdin="", check=True):
    """Run a script as root. Return what it printed."""
    done = subprocess.run(["bash", "-ec", script], input=stdin, text=True, capture_output=True)
    if check and done.returncode:
        raise CheckFailed(f"{script}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def as_panel_user(script, stdin=""):
    """Run a script with the definitions that the document gives for commands."""
    return shell(read_block(MANY_MACHINES, "Start", "set -a") + script, stdin)


def report(text):
    print(f"{time.monotonic():6.0f} s  {text}", flush=True)


def ensure(condition, problem):
    if not condition:
        raise CheckFailed(problem)


def get(path):
    """Return status and text of an answer of the panel."""
    try:
        with urllib.request.urlopen(URL + path, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def is_ready():
    try:
        return get("/readyz")[0] == 200
    except OSError:
        return False


def read_unit(unit):
    properties = shell(f"systemctl show {unit} --property=ActiveState,Result,NRestarts,MainPID")
    return dict(line.split("=", 1) for line in properties.splitlines())


def check_active(*units):
    for unit in units:
        shown = read_unit(unit)
        ensure(shown["ActiveState"] == "active" and shown["Result"] == "success", f"{unit}: {shown}")


def check_never_restarted(*units):
    for unit in units:
        ensure(read_unit(unit)["NRestarts"] == "0", f"{unit} has ended by itself")


def check_journal():
    """Nothing of the panel's units is an error or worse, neither for systemd nor in their own lines."""
    lines = shell("journalctl --boot --quiet --unit='panel*' --priority=warning --output=cat").splitlines(keepends=True)
    problems = "".join(line for line in lines if not any(words in line for words in LEFT_RUNNING))
    for line in shell("journalctl --boot --quiet --unit='panel*' --output=cat").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("level") in ("error", "critical") or "Traceback" in line:
            problems += line + "\n"
    ensure(not problems, f"The journal has problems:\n{problems}")
    report("the journal has no error")


def check_shutdown():
    """At the reboot the units stopped before database and Redis, so nothing was left undone."""
    began = STAGE_FILE.stat().st_mtime
    lines = shell(f"journalctl --boot=-1 --since=@{began} --unit='panel*' --output=cat")
    ensure("Stopped" in lines, "The journal does not show how the units stopped")
    ensure('"warning"' not in lines and '"error"' not in lines, f"The units did not stop in good order:\n{lines}")
    report("the units stopped in good order before the reboot")


def check_pages():
    status, page = get("/sign-in")
    ensure(status == 200 and 'type="password"' in page, f"the sign-in page: {status} {page[:500]}")
    script = re.search(r'src="(/static/[^"]+\.js[^"]*)"', page)[1]
    ensure(get(script)[0] == 200, f"{script} is missing")
    report("the sign-in page and its scripts are served")


def check_ready():
    first_run.wait_until(is_ready, "/readyz")
    report(f"/readyz: {get('/readyz')[1].strip()}")


def check_reload():
    """No request is lost while the web processes are replaced."""
    children = set(shell("pgrep --parent $(systemctl show --value --property=MainPID panel-web)").split())
    statuses, stopped = [], threading.Event()

    def request_pages():
        while not stopped.is_set():
            try:
                statuses.append(get("/healthz")[0])
            except OSError as error:
                statuses.append(error)

    thread = threading.Thread(target=request_pages)
    thread.start()
    shell("systemctl reload panel-web")

    def is_replaced():
        now = shell("pgrep --parent $(systemctl show --value --property=MainPID panel-web)", check=False).split()
        return len(now) == len(children) and not children & set(now)

    try:
        first_run.wait_until(is_replaced, "new web processes")
    finally:
        stopped.set()
        thread.join()
    lost = [status for status in statuses if status != 200]
    ensure(statuses and not lost, f"requests were lost: {lost}")
    report(f"reload of panel-web: {len(statuses)} requests, none lost")


def check_recovery(unit):
    """Systemd starts a unit again whose main process was killed."""
    shell(f"systemctl kill --kill-whom=main --signal=KILL {unit}")

    def is_back():
        shown = read_unit(unit)
        return shown["NRestarts"] != "0" and shown["ActiveState"] == "active"

    first_run.wait_until(is_back, f"{unit} after SIGKILL")


def check_many_machines():
    """All units of many machines on this one, with PostgreSQL and Redis of the distribution."""
    replaced = {
        "PANEL_DATABASE_URL": "postgresql://panel:password@127.0.0.1/panel",
        "PANEL_REDIS_URL": "redis://127.0.0.1:6379/0",
        "PANEL_MAIL_URL": None,
    }
    database = read_block(MANY_MACHINES, "Database", "createuser")
    shell(f"cd /; runuser --user postgres -- bash -ec '{database}'", "password\n" * 2)
    shell(read_block(MANY_MACHINES, "Settings", "install"))
    SETTINGS_FILE.write_text(read_settings(MANY_MACHINES, "Settings", replaced))
    SETTINGS_FILE.chmod(0o600)
    as_panel_user(read_block(MANY_MACHINES, "Start", "panel db upgrade"))
    report("the tables are there")
    create_user = read_block(MANY_MACHINES, "Start", "panel user create").splitlines()[0]
    as_panel_user(create_user, f"{OPERATOR_PASSWORD}\n" * 2)
    as_panel_user("panel setup --simulated")
    as_panel_user("panel user create --email customer@example.com", f"{OPERATOR_PASSWORD}\n" * 2)
    report("an operator, a customer and a simulated hypervisor are there")
    shell(read_block(MANY_MACHINES, "Start", "cp "))
    check_ready()
    check_active(*UNITS)
    check_pages()
    token = as_panel_user("panel token user --email customer@example.com").strip()
    report(f"instance {first_run.deploy(URL, token)} was deployed by a worker")
    report(as_panel_user("panel doctor"))
    check_reload()
    for unit in UNITS:
        shell(f"systemctl restart {unit}")
    check_ready()
    check_active(*UNITS)
    check_never_restarted(*UNITS)
    report("each unit was restarted")
    foreign = shell("find /var/lib/panel ! -user panel")
    ensure(not foreign, f"files of other users:\n{foreign}")
    check_journal()
    for unit in UNITS:
        check_recovery(unit)
    check_ready()
    report("each unit came back after SIGKILL")


def check_many_machines_after_reboot():
    """Everything has come back."""
    check_shutdown()
    check_ready()
    check_active(*UNITS)
    check_never_restarted(*UNITS)
    report(as_panel_user("panel doctor"))
    check_journal()
    shell("systemctl disable --now " + " ".join(UNITS))
    for unit in UNITS:
        shown = read_unit(unit)
        ensure(shown["ActiveState"] == "inactive" and shown["Result"] == "success", f"{unit}: {shown}")
    report("each unit has stopped in good order")
    check_one_machine()


def check_one_machine():
    """`panel up` as a unit, with SQLite and its own Redis."""
    make_run()
    replaced = {"PANEL_PUBLIC_URL": "http://localhost:8000", "PANEL_MAIL_URL": None}
    SETTINGS_FILE.write_text(read_settings(ONE_MACHINE, "Run it as a service", replaced))
    shell(read_block(ONE_MACHINE, "Run it as a service", "cp "))
    check_ready()
    report(shell(read_block(ONE_MACHINE, "Run it as a service", "set -a")))
    daemon = find_hypervisor()
    shell("systemctl restart panel")
    check_ready()
    check_active("panel")
    check_never_restarted("panel")
    ensure(find_hypervisor() == daemon, "the local hypervisor did not outlive a restart of the panel")
    report("the local hypervisor has outlived a restart of the panel")
    check_journal()


def find_hypervisor():
    return shell("pgrep --exact libvirtd")


def make_run():
    """Set up and start the panel by hand, until Ctrl-C."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    process = subprocess.Popen(["make", "run"], text=True, start_new_session=True, **pipes)
    first_run.Output(process).wait_for("The panel is ready")
    os.killpg(process.pid, signal.SIGINT)
    ensure(process.wait(WAIT_TIMEOUT_SECONDS) in (0, -signal.SIGINT), "make run did not end in good order")


def check_one_machine_after_reboot():
    check_shutdown()
    check_ready()
    check_active("panel")
    check_pages()
    report(shell(read_block(ONE_MACHINE, "Run it as a service", "set -a")))
    shell("systemctl stop panel")
    shown = read_unit("panel")
    ensure(shown["ActiveState"] == "inactive" and shown["Result"] == "success", f"panel: {shown}")
    find_hypervisor()
    check_journal()


STAGES = [check_many_machines, check_many_machines_after_reboot, check_one_machine_after_reboot]


def main():
    number = int(STAGE_FILE.read_text()) if STAGE_FILE.exists() else 0
    report(f"boot {number + 1} of {len(STAGES)}: {STAGES[number].__name__}")
    try:
        STAGES[number]()
    except (Exception, SystemExit) as error:
        print(traceback.format_exc() if not isinstance(error, CheckFailed) else f"FAILED: {error}")
        print(shell("systemctl --no-pager status 'panel*'; journalctl --boot --lines=150 --unit='panel*'", check=False))
        sys.stdout.flush()
        shell("systemctl poweroff")
        return
    STAGE_FILE.write_text(str(number + 1))
    if number + 1 == len(STAGES):
        report("All stages passed.")
    shell("sync; systemctl " + ("poweroff" if number + 1 == len(STAGES) else "reboot"))


if __name__ == "__main__":
    main()
