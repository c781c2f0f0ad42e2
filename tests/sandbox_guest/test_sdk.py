"""The sandbox daemon as the unmodified E2B SDK uses it. A small server takes the place of the panel's API."""

import asyncio
import io
import json
import time
import urllib.request

import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandExitException,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    Sandbox,
    TimeoutException,
)

from tests.sandbox_guest.daemon import USER
from tests.sandbox_guest.raw_client import TOKEN
from tests.support.sandbox_sdk import SANDBOX_ID, make_sdk_options, run_api


@pytest.fixture(scope="module")
def api_server():
    with run_api(TOKEN) as server:
        yield server


@pytest.fixture(scope="module")
def options(api_server, daemon_port):
    return make_sdk_options(api_server, daemon_port)


@pytest.fixture(scope="module")
def sandbox(options):
    return Sandbox.connect(SANDBOX_ID, **options)


def test_sandbox_is_running(sandbox):
    assert sandbox.is_running()


def test_command_output_environment_and_folder(sandbox, tmp_path):
    output = []
    result = sandbox.commands.run(
        'echo "$SHARED|$OWN|$PWD|$USER"; echo problem >&2',
        envs={"OWN": "1"},
        cwd=str(tmp_path),
        user=USER.pw_name,
        on_stdout=output.append,
    )
    assert result.stdout == f"of the sandbox|1|{tmp_path}|{USER.pw_name}\n"
    assert (result.stderr, result.exit_code) == ("problem\n", 0)
    assert "".join(output) == result.stdout


def test_command_errors(sandbox):
    with pytest.raises(CommandExitException) as failure:
        sandbox.commands.run("echo partial; exit 7")
    assert (failure.value.exit_code, failure.value.stdout) == (7, "partial\n")
    with pytest.raises(TimeoutException):
        sandbox.commands.run("sleep 30", timeout=0.5)
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run("true", cwd="/absent")
    with pytest.raises(AuthenticationException):
        sandbox.commands.run("true", user="no-such-user")


def test_large_output(sandbox):
    result = sandbox.commands.run("head -c 2000000 /dev/zero | tr '\\0' x")
    assert result.stdout == "x" * 2_000_000


def test_background_command_with_input(sandbox):
    command = sandbox.commands.run("read line; echo got $line; cat", background=True, stdin=True)
    assert command.pid in [process.pid for process in sandbox.commands.list()]
    sandbox.commands.send_stdin(command.pid, "text\n")
    command.send_stdin("more")
    sandbox.commands.close_stdin(command.pid)
    assert command.wait().stdout == "got text\nmore"
    assert not sandbox.commands.kill(command.pid)


def test_disconnect_and_connect(sandbox):
    command = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    command.disconnect()
    other = sandbox.commands.connect(command.pid)
    sandbox.commands.send_stdin(command.pid, "again\n")
    assert other.wait().stdout == "got again\n"
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(2**22 + 1)


def test_kill(sandbox):
    command = sandbox.commands.run("sleep 30", background=True)
    assert command.kill()
    with pytest.raises(CommandExitException) as failure:
        command.wait()
    assert failure.value.exit_code == -1


def test_terminal(sandbox, tmp_path):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80), cwd=str(tmp_path))
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=132))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; pwd; exit 3\n")
    output = []
    with pytest.raises(CommandExitException) as failure:
        terminal.wait(on_pty=output.append)
    assert failure.value.exit_code == 3
    text = b"".join(output).decode()
    assert "40 132\r\n" in text
    assert f"{tmp_path}\r\n" in text
    other = sandbox.pty.create(PtySize(rows=24, cols=80))
    assert sandbox.pty.kill(other.pid)
    assert not sandbox.pty.kill(2**22 + 1)


def test_read_and_write(sandbox, tmp_path):
    path = f"{tmp_path}/new/a b.txt"
    assert sandbox.files.write(path, "text ü").path == path
    assert sandbox.files.read(path) == "text ü"
    content = bytes(range(256)) * 64 * 1024
    sandbox.files.write(path, content)
    assert sandbox.files.read(path, format="bytes") == content
    assert b"".join(sandbox.files.read(path, format="stream")) == content
    sandbox.files.write(path, io.BytesIO(content[:100_000]))
    assert sandbox.files.read(path, format="bytes", gzip=True) == content[:100_000]
    sandbox.files.write(path, content, gzip=True)
    assert sandbox.files.read(path, format="bytes") == content
    sandbox.files.write(path, "")
    assert sandbox.files.read(path) == ""


def test_write_several_files(sandbox, tmp_path):
    entries = [{"path": f"{tmp_path}/{name}", "data": name} for name in ("one", 'd/"two" %41', "e/ü")]
    infos = sandbox.files.write_files(entries)
    assert [info.path for info in infos] == [entry["path"] for entry in entries]
    assert [sandbox.files.read(entry["path"]) for entry in entries] == [entry["data"] for entry in entries]


def test_folders_and_information(sandbox, tmp_path):
    folder = f"{tmp_path}/folder"
    assert sandbox.files.make_dir(f"{folder}/deep")
    assert not sandbox.files.make_dir(folder)
    sandbox.files.write(f"{folder}/file", "123")
    (tmp_path / "link").symlink_to(folder)
    assert [entry.name for entry in sandbox.files.list(folder)] == ["deep", "file"]
    assert len(sandbox.files.list(str(tmp_path), depth=2)) == 4
    info = sandbox.files.get_info(f"{folder}/file")
    assert (info.name, info.type, info.size, info.mode) == ("file", FileType.FILE, 3, 0o644)
    assert (info.permissions, info.owner, info.path) == ("-rw-r--r--", USER.pw_name, f"{folder}/file")
    assert abs(info.modified_time.timestamp() - time.time()) < 60
    assert sandbox.files.get_info(f"{tmp_path}/link").symlink_target == folder
    assert sandbox.files.rename(f"{folder}/file", f"{folder}/renamed").name == "renamed"
    assert not sandbox.files.exists(f"{folder}/file")
    assert sandbox.files.exists(f"{folder}/renamed")
    sandbox.files.remove(folder)
    assert not sandbox.files.exists(folder)
    for call in (sandbox.files.read, sandbox.files.get_info, sandbox.files.list):
        with pytest.raises(NotFoundException):
            call(folder)


def test_watch(sandbox, tmp_path):
    handle = sandbox.files.watch_dir(str(tmp_path), recursive=True)
    sandbox.files.write(f"{tmp_path}/d/file", "1")
    names = set()
    for _attempt in range(50):
        names |= {event.name for event in handle.get_new_events()}
        if "d/file" in names:
            break
        time.sleep(0.02)
    assert names == {"d", "d/file"}
    handle.stop()


def test_asynchronous_sdk(options, tmp_path):
    async def use_sandbox():
        sandbox = await AsyncSandbox.connect(SANDBOX_ID, **options)
        events: asyncio.Queue = asyncio.Queue()
        handle = await sandbox.files.watch_dir(str(tmp_path), on_event=events.put_nowait)
        await sandbox.files.write(f"{tmp_path}/file", "1")
        event = await asyncio.wait_for(events.get(), 10)
        assert event.name == "file"
        await handle.stop()
        results = await asyncio.gather(*(sandbox.commands.run(f"sleep 0.1; echo {number}") for number in range(10)))
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(10)]

    asyncio.run(use_sandbox())


def test_signed_urls(sandbox, tmp_path):
    path = f"{tmp_path}/signed+file"
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nsigned\r\n--b--\r\n'
    for expiration in (None, 60):
        url = sandbox.upload_url(path, use_signature_expiration=expiration)
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            assert json.load(answer)[0]["path"] == path
        url = sandbox.download_url(path, use_signature_expiration=expiration)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.read() == b"signed"
    url = sandbox.download_url(path, user=USER.pw_name)
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.read() == b"signed"


def test_wrong_token_is_an_authentication_error(api_server, options):
    api_server.access_token = "wrong"
    try:
        sandbox = Sandbox.connect(SANDBOX_ID, **options)
    finally:
        api_server.access_token = TOKEN
    with pytest.raises(AuthenticationException):
        sandbox.commands.run("true")
    with pytest.raises(AuthenticationException):
        sandbox.files.read("/etc/hostname")
