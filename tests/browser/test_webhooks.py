"""A webhook in a real browser: created, tested, inspected, disabled and deleted, with a complete panel."""

import json

import pytest
from playwright.sync_api import expect

from panel.services.webhooks.signing import sign_payload
from tests.browser.running_installation import CUSTOMER, sign_in
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import Receiver

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PAGE_TIMEOUT_MS = 20_000
"""Timeout of page expectations that depend on a delivery."""


@pytest.fixture
def receiver(running_installation, tmp_path):
    receiver = Receiver(running_installation.authority.issue(tmp_path), answer=200)
    yield receiver
    receiver.close()


def test_webhook_is_created_tested_and_inspected(page, running_installation, receiver, screenshot):
    """WHK-04, WHK-56, DLV-01, DLV-08: with a secret that the form generated."""
    sign_in(page, running_installation, CUSTOMER)
    page.locator(".account-menu").click()
    page.get_by_role("link", name="Webhooks").first.click()
    page.get_by_role("link", name="Create webhook").first.click()
    page.get_by_label("Name").fill("Inventory")
    page.get_by_label("Address").fill("https://10.0.0.1/")
    page.get_by_role("button", name="Generate").click()
    expect(page.get_by_label("Secret", exact=True)).not_to_have_value("")
    secret = page.get_by_label("Secret", exact=True).input_value()
    page.get_by_role("checkbox", name="All events").check()
    page.get_by_role("button", name="Create webhook").last.click()
    expect(page.get_by_text("10.0.0.1, which is not a public address")).to_be_visible()
    page.get_by_label("Address").fill(receiver.url("/hook?token=t0p"))
    expect(page.get_by_label("Secret", exact=True)).to_have_value(secret)
    screenshot("form")
    page.get_by_role("button", name="Create webhook").last.click()
    expect(page.get_by_text("No deliveries yet")).to_be_visible()

    page.get_by_label("Type of the test event").select_option("instance.deployed")
    page.get_by_role("button", name="Send test event").click()
    row = page.locator("#webhook tbody tr")
    expect(row).to_contain_text("Delivered", timeout=PAGE_TIMEOUT_MS)
    expect(row).to_contain_text("Test")
    screenshot("delivered")
    (post,) = receiver.posts
    assert post.headers["X-Signature-256"] == sign_payload(post.body, secret)
    assert post.headers["X-Hypervisor-Event"] == "instance.deployed"
    assert json.loads(post.body)["event"]["data"] == {"test": True}

    row.get_by_role("link", name="instance.deployed").click()
    expect(page.get_by_text("POST /hook?token=•••")).to_be_visible()
    expect(page.get_by_text("X-Signature-256: sha256=•••")).to_be_visible()
    receiver.answer = 500
    page.get_by_role("button", name="Resend").click()
    expect(page.locator("#delivery")).to_contain_text("Failed", timeout=PAGE_TIMEOUT_MS)
    expect(page.locator("#delivery")).to_contain_text("The receiver answered 500")
    screenshot("failed")
    receiver.answer = 200
    page.get_by_role("button", name="Resend").click()
    expect(page.locator("#delivery")).to_contain_text("Delivered", timeout=PAGE_TIMEOUT_MS)
    assert len({post.headers["X-Hypervisor-Delivery"] for post in receiver.posts}) == 3
    assert len({post.headers["X-Hypervisor-Event-Id"] for post in receiver.posts}) == 1

    instance_id = running_installation.customer.create_instance(display_name="Zürich")
    created = wait_until(lambda: [p for p in receiver.posts if b"instance.created" in p.body], "the event")[0]
    assert created.headers["X-Signature-256"] == sign_payload(created.body, secret)
    assert json.loads(created.body)["instance"]["id"] == instance_id

    page.get_by_role("link", name="Webhook", exact=True).click()
    expect(page.locator("#webhook tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_role("button", name="Enable")).to_be_visible()
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("button", name="Disable")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("No webhook yet")).to_be_visible()
