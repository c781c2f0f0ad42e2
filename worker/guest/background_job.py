"""A long program in a guest, begun and looked at by separate short calls of its agent.

So it survives a lost answer, an agent that is busy or begun anew, and a worker that dies: whoever begins it again
under the same name only looks, while it runs and after it ended. What it leaves lies below /run/panel until the guest
restarts.
"""

import re
import time
from collections.abc import Callable

from worker.nodes.base import AgentSilent, CommandResult, NodeDriver, NodeError, Refused, Unreachable

AGENT_SILENCE_TIMEOUT_SECONDS = 90.0
"""Seconds that the agent may be silent while the program runs: other programs keep the guest busy."""
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.2, 3.0
"""Seconds until the first look, and between later ones."""
JOB_DEADLINE_SECONDS = 1800.0

INPUT_CHUNK_BYTES = 16 * 1024
"""Bytes of input for one call: an agent whose processor is emulated takes seconds for more."""

JOB_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")

# Input that is longer than a call may bring comes before, in numbered pieces.
PREPARE_SCRIPT = """\
set -eu
umask 077
dir=/run/panel/$1
mkdir -p "$dir"
[ ! -e "$dir/exit" ] && [ ! -L "$dir/running" ] || exit 0
cat >"$dir/piece.new"
mv "$dir/piece.new" "$dir/piece-$2"
"""

# $1 is the name, $2 the program, a shell's script; its input is ours. Whatever was prepared twice is the same, and of
# two runners only the one that makes the link `running` goes on. Under systemd it is a unit of its own, which stays
# when the agent is begun anew; systemd would put values in the place of words with a dollar, so it is told a path only.
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

# Only our own files are for nobody else's eyes: what the program makes, such as certificates, is for all.
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
"""A process of that number may be another one by now."""

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
    """The program ended before its end: the guest restarted, or somebody stopped it."""


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
    """How the script (of /bin/sh) of that name ended, and the last `most` bytes of what it said. It is begun unless it
    was already. `check` is called between looks; what it raises goes on from here, and the program goes on too, until
    `stop`. Raises `AgentSilent` when the guest does not answer, `Refused` when it cannot begin programs, `Interrupted`
    when it restarted meanwhile, and `NodeError` past the deadline (in seconds), when the program is stopped."""
    assert JOB_NAME.fullmatch(name), name
    until = time.monotonic() + deadline
    start(node, machine_id, name, script, stdin, check)
    pause = FIRST_POLL_SECONDS
    while True:
        check()
        word, _, output = run_script(
            node, machine_id, [POLL_SCRIPT, name, str(max_output_bytes)], "", check
        ).output.partition("\n")
        if word.startswith("ended "):
            return CommandResult(int(word.split()[1]), output)
        if word == "gone":
            what = "It was interrupted: the machine restarted meanwhile, or somebody in it stopped it. Try again."
            raise Interrupted(what, f"machine {machine_id}, {name}")
        if time.monotonic() > until:
            stop(node, machine_id, name)
            detail = f"machine {machine_id}, {name}: more than {deadline:g} seconds"
            raise NodeError(f"The machine did not finish this within {deadline / 60:.0f} minutes.", detail)
        time.sleep(pause)
        pause = min(pause * 1.5, MAX_POLL_SECONDS)


def start(node, machine_id, name, script, stdin, check):
    *first, last = split_chunks(stdin)
    calls = [([PREPARE_SCRIPT, name, f"{number:04}"], piece) for number, piece in enumerate(first)]
    for words, piece in [*calls, ([START_SCRIPT, name, script, RUNNER_SCRIPT], last)]:
        run_start_step(node, machine_id, words, piece, check)


def split_chunks(text):
    """Of few enough bytes, also when characters are the longest there are."""
    size = INPUT_CHUNK_BYTES if text.isascii() else INPUT_CHUNK_BYTES // 4
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def run_start_step(node, machine_id, words, stdin, check):
    try:
        done = run_script(node, machine_id, words, stdin, check)
    except Refused as refused:
        if "guest-exec" not in refused.detail and "has been disabled" not in refused.detail:
            raise
        raise Refused(
            "The guest agent of this system does not let the panel run programs. Take guest-exec and guest-exec-status "
            "out of what it blocks (on RHEL and its relatives in /etc/sysconfig/qemu-ga), and restart it.",
            refused.detail,
        ) from refused
    if done.exit_code:
        detail = f"machine {machine_id}, {words[1]}: {done.output.strip()[-500:]}"
        raise Refused("The machine could not begin this. Look whether its disk is full.", detail)


def stop(node: NodeDriver, machine_id: str, name: str) -> None:
    """After success the program of that name does not run. Raises `AgentSilent` when the guest does not answer."""
    node.agent_run(machine_id, ["sh", "-c", STOP_SCRIPT, "sh", name])


def run_script(node, machine_id, words, stdin, check):
    """The answer of a short script, which may run twice. An agent that is silent is asked again for a while."""
    silent_since = None
    while True:
        try:
            return node.agent_run(machine_id, ["sh", "-c", words[0], "sh", *words[1:]], stdin=stdin)
        except (AgentSilent, Unreachable):
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > AGENT_SILENCE_TIMEOUT_SECONDS:
                raise
        check()
        time.sleep(MAX_POLL_SECONDS)
