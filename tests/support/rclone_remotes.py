"""Remotes of rclone: a directory, and an OpenSSH server on the loopback interface."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

SSHD_CONFIG = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""

RCLONE_CONFIG = """
[directory]
type = local

[server]
type = sftp
host = 127.0.0.1
port = {port}
user = root
key_file = {folder}/key
known_hosts_file = {folder}/known_hosts
shell_type = none
"""


class SshServer:
    def __init__(self, folder):
        self.folder, self.port = folder, find_free_port()
        for key in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        public = (folder / "host_key.pub").read_text()
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public}")
        (folder / "sshd_config").write_text(SSHD_CONFIG.format(port=self.port, folder=folder))
        (folder / "rclone.conf").write_text(RCLONE_CONFIG.format(port=self.port, folder=folder))
        Path("/run/sshd").mkdir(exist_ok=True)
        self.start()

    def start(self):
        with (self.folder / "log").open("w") as log:
            command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")]
            self.process = subprocess.Popen(command, stderr=log)
        wait_until(lambda: "Server listening" in (self.folder / "log").read_text(), "the SSH server")

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory):
    server = SshServer(tmp_path_factory.mktemp("ssh"))
    yield server
    server.stop()


@pytest.fixture
def rclone_remotes(ssh_server, monkeypatch):
    """rclone with the remotes `directory` and `server`."""
    monkeypatch.setenv("RCLONE_CONFIG", str(ssh_server.folder / "rclone.conf"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return ssh_server
