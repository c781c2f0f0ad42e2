"""A public key by which its owner may sign in as root for a while, added to a guest and removed by its guest agent."""

from panel.core.messages import message
from worker.nodes.base import NodeDriver, Refused

# $1 is `put` or `remove`; the key is the only line of the input, so that no character of it is a command. The file is
# replaced as a whole: a guest whose disk is full, or that is turned off in between, keeps the old one. A lock on the
# directory serializes changes, where the guest has flock.
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


def add_key(node: NodeDriver, machine_id: str, public_key: str) -> None:
    """After success the guest's SSH server accepts the key for root, if it accepts keys for root at all. The key is a
    line as in `authorized_keys`; the comment at its end names its owner. Other keys stay. Raises `AgentUnavailable`
    when the guest does not answer, `Refused` when it could not change the file."""
    change_keys(node, machine_id, "put", public_key)


def remove_key(node: NodeDriver, machine_id: str, public_key: str) -> None:
    """After success that line is not among root's keys; open connections stay. Raises as `add_key`."""
    change_keys(node, machine_id, "remove", public_key)


def change_keys(node, machine_id, action, public_key):
    result = node.agent_run(machine_id, ["sh", "-c", CHANGE_KEYS_SCRIPT, "sh", action], stdin=public_key.strip() + "\n")
    if result.exit_code:
        detail = f"machine {machine_id}, {action}: {result.output.strip()[-500:]}"
        raise Refused(message("The guest could not change its SSH keys."), detail)
