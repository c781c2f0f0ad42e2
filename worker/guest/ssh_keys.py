"""A public key that lets its owner sign in as root for a while, put into a guest and taken out by its agent."""

from worker.nodes.base import NodeDriver, Refused

# $1 is `put` or `remove`; the key comes as the only line of the input, so that no character of it is a command. The
# file is replaced whole: a guest that is full, or turned off in between, keeps the one it had. A lock on the directory
# lets one change at a time in, where the guest has the program for it.
CHANGE_KEYS_SCRIPT = """\
set -eu
umask 077
IFS= read -r key
[ -n "$key" ]
cd ~root
if [ "$1" = put ]; then
    mkdir -p .ssh
    touch .ssh/authorized_keys
    chmod 700 .ssh
    chmod 600 .ssh/authorized_keys
fi
[ -e .ssh/authorized_keys ] || exit 0
exec 9<.ssh
if command -v flock >/dev/null; then flock 9; fi
file=$(readlink -f .ssh/authorized_keys)
trap 'rm -f "$file.panel"' EXIT
cp -p "$file" "$file.panel"
while IFS= read -r line || [ -n "$line" ]; do
    [ "$line" = "$key" ] || printf '%s\\n' "$line"
done <"$file" >"$file.panel"
[ "$1" != put ] || printf '%s\\n' "$key" >>"$file.panel"
mv "$file.panel" "$file"
"""


def put(node: NodeDriver, machine_id: str, public_key: str) -> None:
    """After success the guest's SSH server lets the key's owner in as root, if it lets root in by key at all. The key
    is a line as `authorized_keys` has it; the comment at its end tells people whose it is. Other keys stay. Raises
    `AgentSilent` when the guest does not answer, `Refused` when it could not do it."""
    change_keys(node, machine_id, "put", public_key)


def remove(node: NodeDriver, machine_id: str, public_key: str) -> None:
    """After success that very line is not among root's keys; who signed in by it before stays. Raises as `put`."""
    change_keys(node, machine_id, "remove", public_key)


def change_keys(node, machine_id, what, public_key):
    done = node.agent_run(machine_id, ["sh", "-c", CHANGE_KEYS_SCRIPT, "sh", what], stdin=public_key.strip() + "\n")
    if done.exit_code:
        detail = f"machine {machine_id}, {what}: {done.output.strip()[-500:]}"
        raise Refused("The guest could not change the keys that let people in.", detail)
