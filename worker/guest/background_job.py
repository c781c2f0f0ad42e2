"""A long program in a guest, started and polled by separate short calls of its guest agent.

It survives lost answers, an agent that is busy or restarted, and a worker that dies: starting it again under the same
name attaches to it, while it runs and after it ended. Its files are below /run/panel until the guest restarts.
"""

import re
import time
from collections.abc import Callable

from panel.core.messages import message
from worker.nodes.base import AgentUnavailable, CommandResult, NodeDriver, NodeError, Refused, Unreachable

AGENT_SILENCE_TIMEOUT_SECONDS = 90.0
"""Seconds that the agent may be unresponsive while the program runs: other programs keep the guest busy."""
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.2, 3.0
"""Seconds until the first poll, and the longest pause between later ones."""
JOB_DEADLINE_SECONDS = 1800.0

INPUT_CHUNK_BYTES = 16 * 1024
"""Bytes of input for one call: an agent on an emulated processor takes seconds for more."""

JOB_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

# Stores a numbered chunk of input, when the whole input is longer than one call may carry.
PREPARE_SCRIPT = """\
set -eu
umask 077
dir=/run/panel/$1
mkdir -p "$dir"
[ ! -e "$dir/exit" ] && [ ! -L "$dir/running" ] || exit 0
cat >"$dir/piece.new"
mv "$dir/piece.new" "$dir/piece-$2"
"""

# $1 is the name, $2 the program (a shell script), $3 the runner; the input is the last chunk of the program's input.
# Preparing it twice changes nothing, and of two runners only the one that creates the link `running` continues. Under
# systemd it is a separate unit, which survives a restart of the agent; systemd expands dollar signs in arguments, so it
# gets a path only.
START_SCRIPT = """\
set -eu
umask 077
dir=/run/panel/$1
mkdir -p "$dir"
[ ! -e "$dir/exit" ] && [ ! -L "$dir/running" ] || exit 0
for piece in "$dir"/piece-*; do [ ! -e "$piece" ] || cat "$piece"; done >"$dir/input.$$"
cat >>"$dir/input.$$"
printf '%s\\n' "$2" >"$dir/script.$$"
printf '%s\\n' "$3" >"$dir/runner.$$"
for file in input script runner; do mv "$dir/$file.$$" "$dir/$file"; done
find /run/panel -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} + || true
if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
    systemd-run --quiet --collect /bin/sh "$dir/runner"
else
    setsid sh "$dir/runner" </dev/null >/dev/null 2>&1 &
fi
"""

# Only the job's own files are private. Files that the program creates, such as certificates, have the usual mode.
RUNNER_SCRIPT = """\
umask 077
dir=${0%/*}
ln -s "$$" "$dir/running" 2>/dev/null || exit 0
export PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"
export LC_ALL=C HOME=~root
cd /
exec 3<"$dir/input"
rm -f "$dir/input" "$dir"/piece-*
(umask 022 && exec sh "$dir/script") <&3 3<&- >"$dir/output" 2>&1
echo $? >"$dir/exit.new"
mv "$dir/exit.new" "$dir/exit"
"""

OWNERSHIP_FUNCTIONS = """\
dir=/run/panel/$1
told() { tr '\\0' ' ' <"/proc/$1/cmdline"; }
ours() { pid=$(readlink "$dir/running") && told "$pid" 2>/dev/null | grep -qF "$dir/runner"; }
"""
"""`ours` checks that the process is the runner: its pid may have been reused by another process."""

POLL_SCRIPT = (
    OWNERSHIP_FUNCTIONS
    + """\
ended() { [ -e "$dir/exit" ] && echo "ended $(cat "$dir/exit")" && tail -c "$2" "$dir/output"; }
ended "$@" && exit
[ ! -d "$dir" ] || [ -L "$dir/running" ] || { echo begins; exit; }
ours && echo runs && exit
ended "$@" || echo gone
"""
)

STOP_SCRIPT = (
    OWNERSHIP_FUNCTIONS
    + """\
[ -d "$dir" ] || exit 0
ln -s stopped "$dir/running" 2>/dev/null || true # a runner that is on its way finds it taken
ours && kill -TERM "-$pid" || true
"""
)


class Interrupted(NodeError):
    """The program did not run to its end: the guest restarted, or somebody stopped it."""


def run(
    node: NodeDriver,
    machine_id: str,
    name: str,
    script: str,
    stdin: str = "",
    *,
    check: Callable[[], None] = lambda: None,
    deadline: float = JOB_DEADLINE_SECONDS,
    max_output_bytes: int = 16 * 1024,
) -> CommandResult:
    """Run the script (of /bin/sh) of that name, unless it was started before; return its exit code and the last
    `max_output_bytes` of its output. `check` is called between polls; an exception of it is raised here, and the
    program continues until `stop`. Raises `AgentUnavailable` when the guest does not answer, `Refused` when it cannot
    start programs, `Interrupted` when it restarted meanwhile, and `NodeError` past the deadline (in seconds), after
    stopping the program."""
    assert JOB_NAME.fullmatch(name), name
    time_limit = time.monotonic() + deadline
    start(node, machine_id, name, script, stdin, check)
    pause = FIRST_POLL_SECONDS
    while True:
        check()
        state, _, output = run_script(
            node, machine_id, [POLL_SCRIPT, name, str(max_output_bytes)], "", check
        ).output.partition("\n")
        if state.startswith("ended "):
            return CommandResult(int(state.split()[1]), output)
        if state == "gone":
            sentence = message("Interrupted: the instance restarted, or the program in it was stopped. Try again.")
            raise Interrupted(sentence, f"machine {machine_id}, {name}")
        if time.monotonic() > time_limit:
            stop(node, machine_id, name)
            detail = f"machine {machine_id}, {name}: more than {deadline:g} seconds"
            raise NodeError(
                message("The guest did not finish this within {minutes:.0f} minutes.", minutes=deadline / 60),
                detail,
            )
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_POLL_SECONDS)


def start(node, machine_id, name, script, stdin, check):
    *chunks, last_chunk = split_chunks(stdin)
    calls = [([PREPARE_SCRIPT, name, f"{number:04}"], chunk) for number, chunk in enumerate(chunks)]
    for script_and_arguments, chunk in [*calls, ([START_SCRIPT, name, script, RUNNER_SCRIPT], last_chunk)]:
        run_start_step(node, machine_id, script_and_arguments, chunk, check)


def split_chunks(text):
    """Return chunks of at most INPUT_CHUNK_BYTES, also when each character has four bytes."""
    size = INPUT_CHUNK_BYTES if text.isascii() else INPUT_CHUNK_BYTES // 4
    return [text[offset : offset + size] for offset in range(0, len(text), size)] or [""]


def run_start_step(node, machine_id, script_and_arguments, stdin, check):
    try:
        result = run_script(node, machine_id, script_and_arguments, stdin, check)
    except Refused as refused:
        if "guest-exec" not in refused.detail and "has been disabled" not in refused.detail:
            raise
        raise Refused(
            message(
                "The guest agent of this system does not let the panel run programs. Remove guest-exec and "
                "guest-exec-status from its blocked commands (on RHEL and its relatives in /etc/sysconfig/qemu-ga) and "
                "restart it."
            ),
            refused.detail,
        ) from refused
    if result.exit_code:
        detail = f"machine {machine_id}, {script_and_arguments[1]}: {result.output.strip()[-500:]}"
        raise Refused(message("The guest could not start this. Check whether its disk is full."), detail)


def stop(node: NodeDriver, machine_id: str, name: str) -> None:
    """After success the program of that name does not run. Raises `AgentUnavailable` when the guest does not answer."""
    node.agent_run(machine_id, ["sh", "-c", STOP_SCRIPT, "sh", name])


def run_script(node, machine_id, script_and_arguments, stdin, check):
    """Return the result of a short script, which may run twice. While the agent does not answer, the call is
    repeated."""
    silent_since = None
    while True:
        try:
            return node.agent_run(
                machine_id, ["sh", "-c", script_and_arguments[0], "sh", *script_and_arguments[1:]], stdin=stdin
            )
        except (AgentUnavailable, Unreachable):
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > AGENT_SILENCE_TIMEOUT_SECONDS:
                raise
        check()
        time.sleep(MAX_POLL_SECONDS)
