"""A running panel with its router: the Python example of the key page as it is printed, and a connector.

SBX-03, SBX-09.
"""

import os
import platform
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from lxml import html

from tests.support.microvms import prepare_microvms
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes
PASSWORD = "a long password for the snippets"
ROUTER_PORT = find_free_port()


DOMAIN = "sandboxes.example.net"


@pytest.fixture
def installation_settings(request):
    return getattr(request, "param", {"PANEL_SANDBOX_URL": f"http://127.0.0.1:{ROUTER_PORT}"})


@pytest.fixture
def router(installation, tmp_path):
    """The router of the installation, whose micro VMs are processes of this machine."""
    environment = {**installation.env, "PANEL_SANDBOX_BIND": f"127.0.0.1:{ROUTER_PORT}"}
    command = [sys.executable, "-m", "tests.support.local_guests"]
    with (tmp_path / "router.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: "sandbox_router_started" in (tmp_path / "router.log").read_text(), "the router")
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def web_server_port():
    """The port of a web server of this machine, whose network the micro VMs share."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


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


def wait_for_state(customer, microvm_id, state):
    wait_until(lambda: customer.call("GET", f"/api/microvm/vm/{microvm_id}")["vm"]["state"] == state, state)


@pytest.mark.parametrize("installation_settings", [{"PANEL_SANDBOX_DOMAIN": DOMAIN}], indirect=True)
def test_connector_reaches_the_micro_vm(installation, customer, router, web_server_port):
    prepare_microvms(installation)
    installation.start_all()
    location = customer.call("GET", "/api/cloud-service/locations")["data"][0]["id"]
    image = customer.call("GET", "/api/microvm/images")["data"][0]["id"]
    body = {"location_id": location, "image_id": image, "name": "shop"}
    microvm_id = customer.call("POST", "/api/microvm/vms", body)["vm"]["id"]
    body = {"microvm_id": microvm_id, "port": web_server_port, "label": "shop"}
    connector = customer.call("POST", "/api/microvm/connectors", body)["connector"]
    assert connector["url"] == f"https://shop.{DOMAIN}"

    def get_status(host=f"shop.{DOMAIN}"):
        return httpx.get(f"http://127.0.0.1:{ROUTER_PORT}/", headers={"Host": host}, timeout=120).status_code

    assert get_status() == 200, "one that starts is waited for"
    assert get_status(f"other.{DOMAIN}") == 404
    customer.call("POST", f"/api/microvm/vm/{microvm_id}/pause")
    wait_for_state(customer, microvm_id, "paused")
    assert get_status() == 502
    customer.call("POST", f"/api/microvm/vm/{microvm_id}/resume")
    assert get_status() == 200
    customer.call("DELETE", f"/api/microvm/connector/{connector['id']}")
    assert get_status() == 404
