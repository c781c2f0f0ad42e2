"""The images of sandboxes: their files, and the small one started with its daemon, as the real SDK uses it."""

import base64
import errno
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
from e2b import AuthenticationException, CommandExitException, PtySize, Sandbox

from tests.guests.sandbox_machine import SandboxMachine
from tests.support.sandbox_sdk import SANDBOX_ID, make_sdk_options, run_api
from tests.support.waiting import wait_until
from worker.images import sandbox, sandbox_builder, sandbox_python
from worker.images.commands import BuildFailed

pytestmark = pytest.mark.guest

TOKEN = "token-of-the-guest"


def build(kind, folder, cache):
    return kind.build(folder / "sandbox.qcow2", cache=cache, log=lambda _: None)


@pytest.fixture(scope="module")
def sandbox_image(guest_cache, tmp_path_factory):
    return build(sandbox, tmp_path_factory.mktemp("image"), guest_cache)


@pytest.fixture(scope="module")
def machine(sandbox_image, tmp_path_factory):
    """Give the running sandbox, which has an identity."""
    with SandboxMachine(sandbox_image, tmp_path_factory.mktemp("machine")).run() as sandbox_machine:
        sandbox_machine.send_identity(
            {
                "access_token": TOKEN,
                "host_name": "sandbox-7",
                "machine_id": "0123456789abcdef0123456789abcdef",
                "entropy": base64.b64encode(os.urandom(64)).decode(),
                "time": time.time() + 100_000,
                "env": {"SHARED": "of the sandbox"},
            }
        )
        yield sandbox_machine


@pytest.fixture(scope="module")
def connected_sandbox(machine):
    with run_api(TOKEN) as api:
        yield Sandbox.connect(SANDBOX_ID, **make_sdk_options(api, machine.port))


def test_sandbox_image_is_reproducible_and_complete(sandbox_image, guest_cache, tmp_path):
    again = build(sandbox, tmp_path, guest_cache)
    for name in ("disk", "kernel", "initrd"):
        file = getattr(sandbox_image, name)
        assert file.sha256 == getattr(again, name).sha256 == hashlib.sha256(file.path.read_bytes()).hexdigest()
    raw = convert_to_raw(sandbox_image, tmp_path)
    subprocess.run(["/sbin/e2fsck", "-fn", raw], check=True, capture_output=True)
    assert "User:  1000   Group:  1000" in run_debugfs(raw, "stat /home/user")
    assert "Mode:  0600" in run_debugfs(raw, "stat /etc/shadow")
    assert "Mode:  04755" in run_debugfs(raw, "stat /usr/bin/sudo")
    folder = "/usr/lib/python3/dist-packages/sandbox_guest/__pycache__"
    assert "__main__.cpython-311.pyc" in run_debugfs(raw, f"ls -p {folder}")
    assert "/LC_CTYPE/" in run_debugfs(raw, "ls -p /usr/lib/locale/C.utf8")
    assert "/resolv.conf/" not in run_debugfs(raw, "ls -p /etc"), "it would be that of the building machine"
    facts = json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", sandbox_image.disk.path]))
    assert facts["virtual-size"] == sandbox_image.disk.virtual_size


def test_kernel_accepts_the_timer_of_a_busy_host(sandbox_image, tmp_path):
    """QEMU is stopped most of the time, so the kernel gets few interrupts of the timer while it starts."""
    console = tmp_path / "console"
    options = sandbox_image.kernel_options.replace(" quiet", "")
    command = ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-m", "192", "-display", "none", "-nodefaults"]
    console_options = ["-serial", f"file:{console}", "-kernel", sandbox_image.kernel.path, "-append", options]
    with subprocess.Popen([*command, "-no-user-config", *console_options]) as process:
        try:
            wait_until(lambda: run_briefly(process, console) and "smpboot: Total" in console.read_text(), "the kernel")
        finally:
            process.kill()
    assert "..TIMER: vector" in console.read_text()
    assert "8254 timer not connected" not in console.read_text()


def run_briefly(process, console):
    """Let QEMU run for less than a tenth of the time, and return whether the guest has written to its console."""
    process.send_signal(signal.SIGCONT)
    time.sleep(0.012)
    process.send_signal(signal.SIGSTOP)
    return console.exists()


def test_python_image_has_its_tools(guest_cache, tmp_path):
    raw = convert_to_raw(build(sandbox_python, tmp_path, guest_cache), tmp_path)
    names = run_debugfs(raw, "ls -p /usr/bin")
    for name in ("git", "curl", "pip3", "python3"):
        assert f"/{name}/" in names
    assert "/bash/" in run_debugfs(raw, "ls -p /bin")
    assert (
        "serve sandbox_guest --device /dev/virtio-ports/org.panel.sandbox.0 --code-interpreter-port 49999\n"
        in run_debugfs(raw, "cat /etc/inittab")
    )


def test_sandbox_image_without_its_program_is_not_built(guest_cache, tmp_path):
    with pytest.raises(BuildFailed, match="program of the sandbox is missing"):
        sandbox.build(tmp_path / "sandbox.qcow2", cache=guest_cache, guest_package=tmp_path / "sandbox_guest")


def test_programs_of_builder_are_present():
    assert sandbox_builder.list_missing() == []


def test_command_runs_as_the_user_with_the_identity(connected_sandbox):
    result = connected_sandbox.commands.run(
        'echo "$(id -un) $(hostname) $(cat /etc/machine-id) $SHARED $PWD"; date +%s'
    )
    first, seconds = result.stdout.splitlines()
    assert first == "user sandbox-7 0123456789abcdef0123456789abcdef of the sandbox /home/user"
    assert 99_000 < int(seconds) - time.time() < 101_000


def test_only_the_user_becomes_root(connected_sandbox):
    assert connected_sandbox.commands.run("sudo id -u").stdout == "0\n"
    for command in ("sudo -n id -u", "su -c id"):
        with pytest.raises(CommandExitException):
            connected_sandbox.commands.run(command, user="nobody", cwd="/")


def test_channel_and_identity_are_closed_to_the_user(connected_sandbox):
    for command in ("cat /run/sandbox/identity.json", "cat /dev/virtio-ports/org.panel.sandbox.0"):
        with pytest.raises(CommandExitException) as failure:
            connected_sandbox.commands.run(command)
        assert "Permission denied" in failure.value.stderr


def test_files_and_terminal_work(connected_sandbox):
    content = os.urandom(1_000_000)
    assert connected_sandbox.files.write("data.bin", content).path == "/home/user/data.bin"
    assert connected_sandbox.files.read("data.bin", format="bytes") == content
    info = connected_sandbox.files.get_info("data.bin")
    assert (info.owner, info.group, info.size) == ("user", "user", len(content))
    terminal = connected_sandbox.pty.create(PtySize(rows=30, cols=90))
    connected_sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    output = []
    terminal.wait(on_pty=output.append)
    assert b"30 90\r\n" in b"".join(output)
    assert b"locale" not in b"".join(output)


SPAWN_SCRIPT = """
import os, time
count = 0
try:
    while True:
        os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
        count += 1
except OSError as error:
    print(count, error.errno, flush=True)
time.sleep(600)
"""


def test_user_with_too_many_processes_leaves_the_daemon_alive(connected_sandbox):
    connected_sandbox.files.write("spawn.py", SPAWN_SCRIPT)
    command = connected_sandbox.commands.run("exec python3 spawn.py", background=True)
    count, reason = next(iter(command))[0].split()
    assert 100 < int(count) < 1024
    assert int(reason) == errno.EAGAIN
    assert connected_sandbox.files.read("spawn.py") == SPAWN_SCRIPT
    command.kill()
    assert connected_sandbox.commands.run("killall -q sleep; echo killed", user="root").stdout == "killed\n"
    assert connected_sandbox.commands.run("echo again").stdout == "again\n"


def test_wrong_token_is_refused(machine):
    with run_api("wrong") as api, pytest.raises(AuthenticationException):
        Sandbox.connect(SANDBOX_ID, **make_sdk_options(api, machine.port)).commands.run("true")


def test_killed_daemon_starts_again(machine, connected_sandbox):
    connected_sandbox.commands.run("sudo sh -c 'sleep 0.2; kill -9 $(pidof python3)' >/dev/null 2>&1 &")
    session_id, deadline = machine.mux.session_id, time.monotonic() + 120
    while machine.mux.session_id == session_id or not machine.mux.is_established:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert connected_sandbox.commands.run("echo again").stdout == "again\n"


def convert_to_raw(image, folder):
    raw = folder / "raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", image.disk.path, raw], check=True)
    return raw


def run_debugfs(raw, request):
    return subprocess.run(["/sbin/debugfs", "-R", request, raw], check=True, capture_output=True, text=True).stdout
