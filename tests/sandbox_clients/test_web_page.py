"""A page of another origin uses a sandbox, as SDKs in browsers do."""

import contextlib
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.processes

SCRIPT = """
async ({ api, router, key }) => {
  const send = async (url, headers, method = "GET", body = undefined) => {
    const answer = await fetch(url, { headers: { "Content-Type": "application/json", ...headers }, method, body })
    return { status: answer.status, next: answer.headers.get("x-next-token"), text: await answer.text() }
  }
  const owner = { "X-API-Key": key }
  const sandboxes = []
  for (let number = 0; number < 2; number++) {
    sandboxes.push(JSON.parse((await send(`${api}/v2/sandboxes`, owner, "POST", '{"templateID":"base"}')).text))
  }
  const { sandboxID, envdAccessToken } = sandboxes[0]
  const guest = { "E2b-Sandbox-Id": sandboxID, "E2b-Sandbox-Port": "49983", "Connect-Protocol-Version": "1" }
  const results = {
    refused: await send(`${api}/v2/sandboxes`, { "X-API-Key": "e2b_00" }),
    page: await send(`${api}/v2/sandboxes?limit=1`, owner),
    guest: await send(`${router}/process.Process/List`, { ...guest, "X-Access-Token": envdAccessToken }, "POST", "{}"),
    guest_refused: await send(`${router}/process.Process/List`, guest, "POST", "{}"),
    unknown: await send(`${router}/health`, { ...guest, "E2b-Sandbox-Id": "unknown" }),
  }
  results.killed = await Promise.all(sandboxes.map((row) => send(`${api}/sandboxes/${row.sandboxID}`, owner, "DELETE")))
  return results
}
"""


class PageHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Shop</title>")

    def log_message(self, *_arguments):
        pass


@contextlib.contextmanager
def run_page_server():
    """Serve a page of another origin. Give its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), PageHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_page_of_another_origin_uses_a_sandbox(platform):
    addresses = platform.build_environment()
    with run_page_server() as address, sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        page = browser.new_page()
        page.on("console", lambda entry: print(entry.text))  # why a request failed
        page.goto(address)
        keys = {"api": "E2B_API_URL", "router": "E2B_SANDBOX_URL", "key": "E2B_API_KEY"}
        results = page.evaluate(SCRIPT, {name: addresses[variable] for name, variable in keys.items()})
        browser.close()
    assert results["refused"]["status"] == 401
    assert results["page"]["status"] == 200
    assert results["page"]["next"]
    assert (results["guest"]["status"], results["guest"]["text"]) == (200, '{"processes":[]}')
    assert results["guest_refused"]["status"] == 401
    assert results["unknown"]["status"] == 502
    assert [answer["status"] for answer in results["killed"]] == [204, 204]
