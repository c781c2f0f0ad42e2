"""Other hosts: hypervisors in a network namespace and with a file system view of their own, which the panel reaches
over the network only. Screens listen where the host says; the host's loopback cannot be called from outside.

A host has libvirt's daemon, an SSH server with one key for root, and libvirt's TLS port with certificates of one
authority, whose client the panel is.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.local_hypervisor import claim_network
from worker.nodes.libvirt.private_daemon import PublicNetwork, stop

START_SCRIPT = """
import sys
from worker.nodes.libvirt import private_daemon
directory, address, screens, bridge, gateway4, gateway6 = sys.argv[1:]
private_daemon.DAEMON_CONF += f'''
listen_tls = 1
listen_addr = "{address}"
auth_tls = "none"
key_file = "{directory}/pki/serverkey.pem"
cert_file = "{directory}/pki/servercert.pem"
ca_file = "{directory}/pki/cacert.pem"
'''
private_daemon.QEMU_CONF = private_daemon.QEMU_CONF.replace('vnc_listen = "127.0.0.1"', f'vnc_listen = "{screens}"')
private_daemon.NAMESPACE_SCRIPT = private_daemon.NAMESPACE_SCRIPT.replace("exec libvirtd -d", "exec libvirtd -d -l")
private_daemon.start(directory, private_daemon.PublicNetwork(bridge, gateway4, gateway6))
"""

SSHD_CONFIG = """
ListenAddress {address}
HostKey {place}/host_key
AuthorizedKeysFile {place}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
"""

CERTIFICATES_SCRIPT = """
set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout cakey.pem -out cacert.pem -subj "/CN=tests" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign
make() {
    openssl req -newkey rsa:2048 -nodes -keyout $1key.pem -out $1.csr -subj "/CN=$2"
    printf "keyUsage=digitalSignature,keyEncipherment\\nextendedKeyUsage=serverAuth,clientAuth\\n$3" >$1.ext
    openssl x509 -req -in $1.csr -CA cacert.pem -CAkey cakey.pem -CAcreateserial -days 2 -extfile $1.ext \
        -out $1cert.pem
}
make server "$1" "subjectAltName=IP:$1\\n"
make client panel ""
"""


@dataclass(frozen=True)
class RemoteHost:
    name: str
    address: str
    directory: Path
    network: PublicNetwork

    @property
    def ssh_uri(self):
        return f"qemu+ssh://root@{self.address}/system"

    @property
    def tls_uri(self):
        return f"qemu+tls://{self.address}/system?pkipath={self.directory}/pki"

    @property
    def daemon(self):
        return int((self.directory / "run" / "libvirtd.pid").read_text())

    def inside(self, *command):
        """The command as it is run on the host: in its network, and with its daemon's view of files."""
        return ["nsenter", "--target", str(self.daemon), "--mount", "--net", *command]


@contextlib.contextmanager
def run_remote_host(directory):
    """The host runs until the block ends. Its screens listen at its loopback."""
    network = claim_network()
    number = network.bridge.removeprefix("panelt")
    name, address = f"panelh{number}", f"10.89.{number}.2"
    made = RemoteHost(name, address, directory, network)
    with contextlib.ExitStack() as ends:
        connect_network(made, f"10.89.{number}.1", ends)
        create_certificates(made)
        ends.callback(stop, directory)
        start_daemon(made)
        ends.callback(stop_process, start_ssh_server(made))
        yield made


def start_daemon(made, screens="127.0.0.1"):
    """Starts the host's daemon. From then on machines that are started have their screens at that address."""
    network = made.network
    where = (made.directory, made.address, screens, network.bridge, network.gateway4, network.gateway6)
    run_command("ip", "netns", "exec", made.name, sys.executable, "-c", START_SCRIPT, *map(str, where))


def kill_daemon(made):
    """Its machines and its SSH server go on."""
    pid = made.daemon
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/root").exists():
        assert time.monotonic() < until, "the daemon did not end"
        time.sleep(0.05)


def connect_network(made, gateway, ends):
    """A cable between this machine and the host."""
    run_command("ip", "netns", "add", made.name)
    ends.callback(run_command, "ip", "netns", "delete", made.name)
    run_command("ip", "link", "add", made.name, "type", "veth", "peer", "name", "eth0", "netns", made.name)
    run_command("ip", "address", "add", f"{gateway}/24", "dev", made.name)
    run_command("ip", "link", "set", made.name, "up")
    for words in (("address", "add", f"{made.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
        run_command("ip", "-n", made.name, *words)
    run_command("ip", "-n", made.name, "link", "set", "lo", "up")


def create_certificates(made):
    (made.directory / "pki").mkdir()
    run_command("sh", "-c", CERTIFICATES_SCRIPT, "sh", made.address, cwd=made.directory / "pki")


def start_ssh_server(made):
    """Starts the host's SSH server, once there are keys: `ssh/key` is root's."""
    place = made.directory / "ssh"
    place.mkdir()
    for key in ("key", "host_key"):
        run_command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key)
    public = (place / "host_key.pub").read_text()
    (place / "known_hosts").write_text(f"{made.address} {public}")
    (place / "sshd_config").write_text(SSHD_CONFIG.format(address=made.address, place=place))
    Path("/run/sshd").mkdir(exist_ok=True)
    with (place / "log").open("w") as log:
        server = subprocess.Popen(made.inside("/usr/sbin/sshd", "-D", "-e", "-f", place / "sshd_config"), stderr=log)
    until = time.monotonic() + 20
    while "Server listening" not in (place / "log").read_text():
        assert server.poll() is None, (place / "log").read_text()
        assert time.monotonic() < until, "the SSH server does not listen"
        time.sleep(0.05)
    return server


def stop_process(server):
    server.send_signal(signal.SIGTERM)
    server.wait()


def create_ssh_client(made, directory):
    """A folder for the search path, whose `ssh` knows the host and has the key, as that of an operator who prepared the
    panel's user would."""
    place = made.directory / "ssh"
    words = f"-o UserKnownHostsFile={place}/known_hosts -o GlobalKnownHostsFile=/dev/null -i {place}/key"
    directory.mkdir(exist_ok=True)
    program = directory / "ssh"
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh {words} "$@"\n')
    program.chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


def run_command(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
