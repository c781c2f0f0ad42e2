"""The receivers that the panel shows: each is run, gets deliveries that are ours and others, and tells them apart."""

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
from tests.processes.conftest import find_free_port

SECRET = "correct horse battery ÄÖ"
SAMPLES_FOLDER = ROOT / "templates" / "customer" / "webhooks" / "samples"
PROGRAMS = {"python": "python3", "node": "node", "php": "php", "go": "go"}
START_TIMEOUT_SECONDS = 60
"""Seconds; go compiles first."""


@pytest.fixture(params=RECEIVER_SAMPLES)
def receiver(request, tmp_path):
    """The address of a running sample, and where it writes."""
    _, name, command = RECEIVER_SAMPLES[request.param]
    program = shutil.which(PROGRAMS[request.param])
    if not program:
        print(f"{name} is not run: there is no {PROGRAMS[request.param]} here.")
        pytest.skip(f"there is no {PROGRAMS[request.param]} here")
    port = find_free_port()
    shutil.copy(SAMPLES_FOLDER / name, tmp_path / name)
    words = [program, *command.replace(":8080", f":{port}").split()[1:]]
    env = {**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": str(port), "GOCACHE": str(tmp_path / "cache")}
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}/"
    until = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < until and running.poll() is None and post(address, b"{}") is None:
        time.sleep(0.05)
    yield address, tmp_path / "log"
    with suppress(ProcessLookupError):
        os.killpg(running.pid, 9)
    running.wait()


def post(address, body, **headers):
    """The status of the answer; None when nobody listens."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as answer:
        return answer.code
    except OSError:
        return None


def test_a_sample_takes_what_is_signed_and_refuses_the_rest(receiver):
    """DLV-08, DLV-09: as a receiver computes it, over the very bytes."""
    address, log = receiver
    delivery = WebhookDelivery(id="0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d", event_kind="instance.created")
    delivery.created_at = clock.now()
    event = samples.make_sample_event(delivery)
    event.snapshot = {**event.snapshot, "display_name": "Zürich / 東京 “1.0”"}
    body = signing.make_body(event)
    headers = signing.make_headers(event, body, attempt_id="a", subscription_id="s", secret=SECRET)
    assert post(address, body, **headers) == 200
    signed = "X-Signature-256"
    wrong = [
        (body, {**headers, signed: signing.sign_payload(body, "another secret of it")}),
        (body, {**headers, signed: headers[signed].removeprefix("sha256=")}),
        (body, {**headers, signed: headers[signed][:-1]}),
        (body, {**headers, signed: ""}),
        (body, {name: value for name, value in headers.items() if name != signed}),
        (body.replace(b"instance.created", b"instance.deleted"), headers),
        (json.dumps(json.loads(body)).encode(), headers),
        (b"", headers),
    ]
    assert [post(address, *each[:1], **each[1]) for each in wrong] == [401] * len(wrong), log.read_text()
    assert post(address, body, **headers) == 200
    assert log.read_text().count(f"{event.id} instance.created") == 2


def test_every_sample_is_shown(browser_as):
    for language, (name, file, _) in RECEIVER_SAMPLES.items():
        page = browser_as("owner").get(f"/webhooks/verify?language={language}")
        assert page.status_code == 200
        assert file in page.text
        assert name in page.text
        assert "X-Signature-256" in page.text or "x-signature-256" in page.text
    assert browser_as("owner").get("/webhooks/verify?language=cobol").status_code == 404
