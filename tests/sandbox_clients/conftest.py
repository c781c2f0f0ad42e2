"""A running panel with a simulated hypervisor, and a router whose sandboxes are local processes."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.sandbox_clients.domain_form import DOMAIN, run_name_server, run_nginx
from tests.support.microvms import prepare_microvms
from tests.support.panel_processes import Customer, Installation, fresh_installation  # noqa: F401
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until


class Platform:
    """How clients reach the panel and the router."""

    def __init__(self, installation, token, domain_port):
        self.installation = installation
        self.customer = Customer(installation, token)
        self.router = f"127.0.0.1:{find_free_port()}"
        self.domain = f"{DOMAIN}:{domain_port}"
        self.domain_command, self.authority = (), None
        self.running_router = None

    def start(self):
        self.installation.start_all()
        self.installation.env["PANEL_SANDBOX_BIND"] = self.router
        with (self.installation.data_dir / "sandbox.log").open("w") as log:
            command = [sys.executable, "-m", "tests.support.local_guests"]
            self.running_router = subprocess.Popen(command, env=self.installation.env, stdout=log, stderr=log)
        wait_until(lambda: "sandbox_router_started" in self.installation.read_log("sandbox"), "the router")
        self.key = self.customer.call("POST", "/api/microvm/api-keys", {"name": "clients"})["key"]

    def stop(self):
        if self.running_router:
            self.running_router.terminate()
            self.running_router.wait(30)
        self.installation.kill_processes()

    def build_environment(self, form="path"):
        """Return the variables that clients need, in the form that names URLs or in the one that names the domain."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
        variables["E2B_API_KEY"] = self.key
        if form == "path":
            urls = {"E2B_API_URL": f"{self.installation.url}/api/sbx", "E2B_SANDBOX_URL": f"http://{self.router}"}
            return variables | urls
        trusted = {name: str(self.authority) for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")}
        return variables | trusted | {"E2B_DOMAIN": self.domain}

    def run(self, *command, form="path", status=0, **options):
        """Run a client to its end and return its output."""
        command = [*(self.domain_command if form == "domain" else ()), *command]
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 200, **options}
        result = subprocess.run(command, env=self.build_environment(form), **options)
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout


@pytest.fixture(scope="session")
def platform(fresh_installation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("platform")
    shutil.copytree(fresh_installation[0].data_dir, folder / "data")
    domain_port = find_free_port()
    settings = {"PANEL_WEB_WORKERS": "1", "PANEL_WORKERS": "1", "PANEL_SANDBOX_DOMAIN": f"{DOMAIN}:{domain_port}"}
    installation = Installation(folder / "data", **settings)
    prepare_microvms(installation)
    running_platform = Platform(installation, fresh_installation[1], domain_port)
    try:
        running_platform.start()
        with (
            run_name_server(folder) as running_platform.domain_command,
            run_nginx(folder, domain_port, installation.bind, running_platform.router) as running_platform.authority,
        ):
            yield running_platform
        log = installation.read_log("sandbox")
        assert "Traceback" not in log, log
    finally:
        running_platform.stop()
