"""The Python example of the key page, executed as it is printed (SBX-03, SBX-09)."""

import contextlib
import os
import platform
import re
import subprocess
import sys

import httpx
import pytest
from lxml import html

from tests.sandbox_guest.daemon import run_daemon
from tests.support.microvms import prepare_microvms
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes
PASSWORD = "a long password for the snippets"
ROUTER_PORT = find_free_port()


@pytest.fixture
def installation_settings():
    return {"PANEL_SANDBOX_URL": f"http://127.0.0.1:{ROUTER_PORT}"}


@pytest.fixture
def router(installation, tmp_path):
    """The router of the installation, whose micro VMs have a daemon of this machine inside."""
    (tmp_path / "guest/etc").mkdir(parents=True)
    with run_daemon(tmp_path / "guest/run/sandbox/identity.json") as daemon_port, contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "tests.processes.local_daemon_router", str(daemon_port), tmp_path / "guest"]
        environment = {**installation.env, "PANEL_SANDBOX_BIND": f"127.0.0.1:{ROUTER_PORT}"}
        log = stack.enter_context((tmp_path / "router.log").open("w"))
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: "sandbox_router_started" in (tmp_path / "router.log").read_text(), "the router")
            yield
        finally:
            process.terminate()
            process.wait(30)


def read_created_page(installation):
    """Create a key in a browser and return the page that shows it."""
    installation.run_panel("user", "password", "--email", "customer@example.com", "--password", PASSWORD)
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": installation.url}
    with httpx.Client(base_url=installation.url, headers=headers, follow_redirects=True, timeout=60) as browser:
        browser.post("/sign-in", data={"email": "customer@example.com", "password": PASSWORD})
        answer = browser.post("/sandbox-keys/new", data={"name": "snippets"})
        assert answer.status_code == 200, answer.text
        return answer.text


def list_printed_code(page):
    return [element.text_content() for element in html.fromstring(page).iterfind(".//pre/code")]


def test_python_example_works_as_it_is_printed(installation, router, tmp_path):
    prepare_microvms(installation)
    installation.start_all()
    variables, install, example = list_printed_code(read_created_page(installation))[:3]
    assert re.fullmatch(r"(export E2B_(API_URL|SANDBOX_URL|API_KEY)=\S+\n){3}", variables)
    assert install == "pip install e2b\n"
    (tmp_path / "example.py").write_text(example)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    script = f"{variables}\nexec {sys.executable} {tmp_path / 'example.py'}"
    result = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr + (tmp_path / "router.log").read_text()
    assert result.stdout.startswith(f"{platform.system()} {platform.node()}")
