"""Remote hosts: hypervisors in network and mount namespaces of their own, which the panel reaches only by network.

A host has libvirt's daemon, an SSH server with one key for root, and libvirt's TLS port with server and client
certificates of one authority. VNC servers listen at the address given to `start_daemon`; by default this is the host's
loopback address, which cannot be reached from outside.
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

    def build_command(self, *command):
        """Return the command wrapped to run on the host: in its network and mount namespaces."""
        return ["nsenter", "--target", str(self.daemon), "--mount", "--net", *command]


@contextlib.contextmanager
def run_remote_host(directory):
    """Run a host until the block ends. Its VNC servers listen at its loopback address."""
    network = claim_network()
    number = network.bridge.removeprefix("panelt")
    name, address = f"panelh{number}", f"10.89.{number}.2"
    host = RemoteHost(name, address, directory, network)
    with contextlib.ExitStack() as ends:
        connect_network(host, f"10.89.{number}.1", ends)
        create_certificates(host)
        ends.callback(stop, directory)
        start_daemon(host)
        ends.callback(stop_process, start_ssh_server(host))
        yield host


def start_daemon(host, vnc_address="127.0.0.1"):
    """Start the host's daemon. The VNC servers of machines that start from now on listen at `vnc_address`."""
    network = host.network
    arguments = (host.directory, host.address, vnc_address, network.bridge, network.gateway4, network.gateway6)
    run_command("ip", "netns", "exec", host.name, sys.executable, "-c", START_SCRIPT, *map(str, arguments))


def kill_daemon(host):
    """Kill the host's daemon. Its machines and SSH server keep running."""
    pid = host.daemon
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}/root").exists():
        assert time.monotonic() < until, "the daemon did not end"
        time.sleep(0.05)


def connect_network(host, gateway, ends):
    """Connect this machine and the host by a veth pair."""
    run_command("ip", "netns", "add", host.name)
    ends.callback(run_command, "ip", "netns", "delete", host.name)
    run_command("ip", "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    run_command("ip", "address", "add", f"{gateway}/24", "dev", host.name)
    run_command("ip", "link", "set", host.name, "up")
    for arguments in (("address", "add", f"{host.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
        run_command("ip", "-n", host.name, *arguments)
    run_command("ip", "-n", host.name, "link", "set", "lo", "up")


def create_certificates(host):
    (host.directory / "pki").mkdir()
    run_command("sh", "-c", CERTIFICATES_SCRIPT, "sh", host.address, cwd=host.directory / "pki")


def start_ssh_server(host):
    """Create keys and start the host's SSH server. `ssh/key` is root's private key."""
    folder = host.directory / "ssh"
    folder.mkdir()
    for key in ("key", "host_key"):
        run_command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key)
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"{host.address} {public}")
    (folder / "sshd_config").write_text(SSHD_CONFIG.format(address=host.address, place=folder))
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            host.build_command("/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"), stderr=log
        )
    until = time.monotonic() + 20
    while "Server listening" not in (folder / "log").read_text():
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until, "the SSH server does not listen"
        time.sleep(0.05)
    return server


def stop_process(server):
    server.send_signal(signal.SIGTERM)
    server.wait()


def create_ssh_client(host, directory):
    """Write an `ssh` program with the host's key and known_hosts file, as an operator sets up for the panel's user.
    Return a PATH with it in front."""
    folder = host.directory / "ssh"
    options = f"-o UserKnownHostsFile={folder}/known_hosts -o GlobalKnownHostsFile=/dev/null -i {folder}/key"
    directory.mkdir(exist_ok=True)
    program = directory / "ssh"
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh {options} "$@"\n')
    program.chmod(0o755)
    return f"{directory}{os.pathsep}{os.environ['PATH']}"


def run_command(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
