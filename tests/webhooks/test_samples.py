"""The sample receivers that the panel shows: each is run, accepts correctly signed deliveries and refuses others."""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from panel.core import clock
from panel.core.config import ROOT
from panel.models import WebhookDelivery
from panel.pages.customer.webhooks import RECEIVER_SAMPLES
from panel.services.webhooks import samples, signing
from tests.support.ports import find_free_port

SECRET = "correct horse battery ÄÖ"
SAMPLES_FOLDER = ROOT / "templates" / "customer" / "webhooks" / "samples"
PROGRAMS = {"python": "python3", "node": "node", "php": "php", "go": "go"}
START_TIMEOUT_SECONDS = 60
"""Seconds; go compiles first."""


@pytest.fixture(params=RECEIVER_SAMPLES)
def receiver(request, tmp_path):
    """The address of a running sample, and its log file."""
    _, name, command = RECEIVER_SAMPLES[request.param]
    program = shutil.which(PROGRAMS[request.param])
    if not program:
        print(f"{name} is not run: there is no {PROGRAMS[request.param]} here.")
        pytest.skip(f"there is no {PROGRAMS[request.param]} here")
    port = find_free_port()
    shutil.copy(SAMPLES_FOLDER / name, tmp_path / name)
    arguments = [program, *command.replace(":8080", f":{port}").split()[1:]]
    env = {**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": str(port), "GOCACHE": str(tmp_path / "cache")}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(arguments, cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None and send_post(address, b"{}") is None:
        time.sleep(0.05)
    yield address, tmp_path / "log"
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


def send_post(address, body, **headers):
    """Return the status of the answer, or None without a connection."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as answer:
        return answer.code
    except OSError:
        return None


def test_sample_accepts_only_correctly_signed_posts(receiver):
    """DLV-08, DLV-09: as a receiver computes the signature, over the exact bytes."""
    address, log = receiver
    delivery = WebhookDelivery(id="0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d", event_kind="instance.created")
    delivery.created_at = clock.now()
    event = samples.make_sample_event(delivery)
    event.snapshot = {**event.snapshot, "display_name": "Zürich / 東京 “1.0”"}
    body = signing.make_body(event)
    headers = signing.make_headers(event, body, attempt_id="a", subscription_id="s", secret=SECRET)
    assert send_post(address, body, **headers) == 200
    signature_header = "X-Signature-256"
    invalid_posts = [
        (body, {**headers, signature_header: signing.sign_payload(body, "another secret of it")}),
        (body, {**headers, signature_header: headers[signature_header].removeprefix("sha256=")}),
        (body, {**headers, signature_header: headers[signature_header][:-1]}),
        (body, {**headers, signature_header: ""}),
        (body, {name: value for name, value in headers.items() if name != signature_header}),
        (body.replace(b"instance.created", b"instance.deleted"), headers),
        (json.dumps(json.loads(body)).encode(), headers),
        (b"", headers),
    ]
    assert [send_post(address, *invalid_post[:1], **invalid_post[1]) for invalid_post in invalid_posts] == [401] * len(
        invalid_posts
    ), log.read_text()
    assert send_post(address, body, **headers) == 200
    assert log.read_text().count(f"{event.id} instance.created") == 2


def test_every_sample_is_shown_on_page(browser_as):
    for language, (name, file, _) in RECEIVER_SAMPLES.items():
        page = browser_as("owner").get(f"/webhooks/verify?language={language}")
        assert page.status_code == 200
        assert file in page.text
        assert name in page.text
        assert "X-Signature-256" in page.text or "x-signature-256" in page.text
    assert browser_as("owner").get("/webhooks/verify?language=cobol").status_code == 404
