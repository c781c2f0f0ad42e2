"""Background jobs in a guest: started once and polled, also after lost answers and cancelled callers."""

import stat
import threading
import time

import pytest

from worker.guest import background_job
from worker.nodes.base import AgentUnavailable, CommandResult, NodeError, Refused

WAIT_SCRIPT = "read line; while [ ! -e go ]; do sleep 0.05; done; echo $line"


def build_wait_script(host):
    """Return a script that waits until `finish_wait_script` was called."""
    return WAIT_SCRIPT.replace("go", str(host.home / "go"), 1)


def finish_wait_script(host):
    (host.home / "go").touch()


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class JobCancelled(Exception):
    pass


def cancel_after(times):
    """Return a check that raises JobCancelled after that many calls."""
    calls = iter(range(times))

    def check():
        if next(calls, None) is None:
            raise JobCancelled

    return check


def test_job_returns_output_and_exit_code(fake_guest):
    done = background_job.run(fake_guest, "m", "one", "cat; echo and wrong >&2; exit 3", "in: $x `y` é\n")
    assert done == CommandResult(3, "in: $x `y` é\nand wrong\n")
    assert fake_guest.file_mode("/run/panel/one") == 0o700
    names = ["exit", "output", "runner", "running", "script"]
    assert sorted(path.name for path in fake_guest.host_path("/run/panel/one").iterdir()) == names
    assert {fake_guest.file_mode(f"/run/panel/one/{name}") for name in names if name != "running"} == {0o600}


def test_job_uses_default_umask(fake_guest):
    """As when packages are installed by hand."""
    background_job.run(fake_guest, "m", "one", f"mkdir {fake_guest.home}/made")
    assert stat.S_IMODE((fake_guest.home / "made").stat().st_mode) == 0o755


def test_job_input_is_not_in_commands_or_files(fake_guest):
    background_job.run(fake_guest, "m", "one", "cat >/dev/null", "a secret")
    assert not [word for command in fake_guest.calls for word in command if "secret" in word]
    assert not [
        path
        for path in fake_guest.host_path("/run/panel").rglob("*")
        if path.is_file() and "secret" in path.read_text()
    ]


def test_long_input_is_sent_in_chunks(fake_guest):
    text = "".join(f"{number} é🚀\n" for number in range(20_000))
    done = background_job.run(fake_guest, "m", "one", f"cat >{fake_guest.home}/got", text)
    assert done == CommandResult(0, "")
    assert (fake_guest.home / "got").read_text() == text
    prepared = [command[5] for command in fake_guest.calls if command[2] == background_job.PREPARE_SCRIPT]
    assert prepared == sorted(set(prepared))
    assert len(prepared) > 10
    assert all(len(given) <= background_job.INPUT_CHUNK_BYTES for given in fake_guest.inputs)
    assert not list(fake_guest.host_path("/run/panel/one").glob("piece*"))


def test_long_output_keeps_only_its_end(fake_guest):
    done = background_job.run(
        fake_guest, "m", "one", "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); echo $n; done", max_output_bytes=12
    )
    assert done == CommandResult(0, "19999\n20000\n")


def test_repeated_run_attaches_to_same_job(fake_guest):
    script = f"echo once >>{fake_guest.home}/done; {build_wait_script(fake_guest)}"
    with pytest.raises(JobCancelled):
        background_job.run(fake_guest, "m", "one", script, "hello\n", check=cancel_after(2))
    finish_wait_script(fake_guest)
    for _ in range(2):
        assert background_job.run(fake_guest, "m", "one", script, "another\n") == CommandResult(0, "hello\n")
    assert (fake_guest.home / "done").read_text() == "once\n"
    assert background_job.run(fake_guest, "m", "two", script, "another\n") == CommandResult(0, "another\n")


def test_parallel_runs_start_one_job(fake_guest):
    script = f"echo once >>{fake_guest.home}/done; {build_wait_script(fake_guest)}"
    results = []
    begin = lambda: results.append(background_job.run(fake_guest, "m", "one", script, "hello\n"))  # noqa: E731
    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len([command for command in fake_guest.calls if command[2] == background_job.POLL_SCRIPT]) > 12)
    finish_wait_script(fake_guest)
    for thread in threads:
        thread.join()
    assert results == [CommandResult(0, "hello\n")] * 6
    assert (fake_guest.home / "done").read_text() == "once\n"


def test_lost_answers_do_not_affect_job(fake_guest):
    """Also the answer of the call that started the program."""
    fake_guest.lost_answers = [True, False, True, True]
    script = f"echo once >>{fake_guest.home}/done; echo end"
    assert background_job.run(fake_guest, "m", "one", script) == CommandResult(0, "end\n")
    assert fake_guest.lost_answers == []
    assert (fake_guest.home / "done").read_text() == "once\n"


def test_silent_agent_times_out(fake_guest, monkeypatch):
    monkeypatch.setattr(background_job, "AGENT_SILENCE_TIMEOUT_SECONDS", 0.3)
    fake_guest.unavailable_calls = 10**6
    with pytest.raises(AgentUnavailable):
        background_job.run(fake_guest, "m", "one", "true")
    fake_guest.unavailable_calls = 2
    assert background_job.run(fake_guest, "m", "one", "true").exit_code == 0


def test_guest_restart_interrupts_job(fake_guest):
    """A restart removes the folder of the job."""

    def restart():
        if fake_guest.host_path("/run/panel/one/running").is_symlink():
            background_job.stop(fake_guest, "m", "one")
            fake_guest.host_path("/run/panel/one").rename(fake_guest.home / "gone")

    with pytest.raises(background_job.Interrupted, match="restarted"):
        background_job.run(fake_guest, "m", "one", build_wait_script(fake_guest), check=restart)


def test_stopped_job_is_interrupted(fake_guest):
    def stop_job():
        if fake_guest.host_path("/run/panel/one/running").is_symlink():
            background_job.stop(fake_guest, "m", "one")

    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", build_wait_script(fake_guest), check=stop_job)
    background_job.stop(fake_guest, "m", "one")
    background_job.stop(fake_guest, "m", "never started")


def test_job_stopped_before_start_does_not_run(fake_guest):
    fake_guest.host_path("/run/panel/one").mkdir()
    background_job.stop(fake_guest, "m", "one")
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", f"touch {fake_guest.home}/late")
    assert not (fake_guest.home / "late").exists()


def test_reused_pid_is_not_taken_for_job(fake_guest):
    folder = fake_guest.host_path("/run/panel/one")
    folder.mkdir()
    (folder / "running").symlink_to("1")
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", "true")


def test_job_is_stopped_at_deadline(fake_guest):
    with pytest.raises(NodeError, match="did not finish"):
        background_job.run(
            fake_guest, "m", "one", f"{build_wait_script(fake_guest)}; touch {fake_guest.home}/late", deadline=0.3
        )
    finish_wait_script(fake_guest)
    with pytest.raises(background_job.Interrupted):
        background_job.run(fake_guest, "m", "one", "true")
    assert not (fake_guest.home / "late").exists()


def test_job_runs_as_systemd_unit(fake_guest):
    fake_guest.host_path("/run/systemd/system").mkdir(parents=True)
    fake_guest.add_program("systemd-run", 'shift 2; setsid "$@" </dev/null >/dev/null 2>&1 &')
    assert background_job.run(fake_guest, "m", "one", "echo $((6 * 7))") == CommandResult(0, "42\n")
    assert fake_guest.read_calls() == [f"systemd-run --quiet --collect /bin/sh {fake_guest.home}/run/panel/one/runner"]


def test_job_start_failure_is_reported(fake_guest):
    fake_guest.host_path("/run/panel").rmdir()
    fake_guest.host_path("/run/panel").write_text("no folder")
    with pytest.raises(Refused, match="disk") as refused:
        background_job.run(fake_guest, "m", "one", "true")
    assert "mkdir" in refused.value.detail


def test_disabled_guest_exec_is_explained(fake_guest, monkeypatch):
    def blocked(*_, **__):
        raise Refused("The hypervisor could not run the program.", "Command guest-exec has been disabled")

    monkeypatch.setattr(fake_guest, "agent_run", blocked)
    with pytest.raises(Refused, match="does not let the panel run programs"):
        background_job.run(fake_guest, "m", "one", "true")
