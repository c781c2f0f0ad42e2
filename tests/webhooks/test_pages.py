"""Webhooks on the customers' pages."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.config import ROOT
from panel.core.db import session
from panel.models import AuditEntry, Event, Member, WebhookDelivery, WebhookSubscription
from panel.pages.customer.webhooks import group_event_kinds
from panel.schemas.webhooks import EVENT_KINDS
from panel.services.webhooks import subscriptions
from tests.support.html_pages import PARTIAL_HEADERS

SECRET = "correct horse battery"
FORM = {"name": "Inventory", "url": "https://1.1.1.1/hook", "secret": SECRET, "event_kinds": ["", "instance.created"]}


@pytest.fixture
def subscription(cast):
    values = {"name": "Inventory", "url": "https://1.1.1.1/hook?token=t0p", "secret": SECRET, "event_kinds": ["*"]}
    row = subscriptions.create(cast.owner, **values)
    session.commit()
    return row


def create_delivery(subscription, **values):
    event = Event(
        account_id=subscription.account_id, kind="instance.created", resource_type="instance", resource_id="i"
    )
    event.snapshot = {"id": "i", "display_name": "Zürich"}
    event.data = {}
    session.add(event)
    session.flush()
    delivery = WebhookDelivery(
        account_id=subscription.account_id,
        subscription_id=subscription.id,
        event_id=event.id,
        event_kind=event.kind,
        **values,
    )
    session.add(delivery)
    session.commit()
    return delivery


def build_attempt(**values):
    defaults = {
        "id": "a-1",
        "at": clock.now().isoformat(),
        "code": 500,
        "duration_ms": 1234,
        "error": None,
        "body": "no",
    }
    return {**defaults, **values}


def test_empty_webhook_pages_explain_next_step(browser_as, subscription):
    page = browser_as("outsider").get("/webhooks").text
    assert "No webhook yet" in page
    assert "POST /api/webhook-subscriptions" in page
    assert 'href="/webhooks/new"' in page
    assert "No deliveries yet" in browser_as("owner").get(f"/webhooks/{subscription.id}").text


def test_webhook_page_creates_subscription(browser_as, cast):
    browser = browser_as("owner")
    answer = browser.post("/webhooks/new", data=FORM)
    row = session.scalars(select(WebhookSubscription)).one()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/webhooks/{row.id}")
    assert (row.account_id, row.name, row.url, row.secret) == (cast.owner.id, *list(FORM.values())[:3])
    assert (row.event_kinds, row.enabled, row.cluster_filter) == (["instance.created"], True, None)
    for path in ("/webhooks", f"/webhooks/{row.id}", f"/webhooks/{row.id}/edit"):
        assert SECRET not in browser.get(path).text
    assert session.scalars(select(AuditEntry.action)).all() == ["webhooks.create"]


def test_form_shows_possible_event_kinds_with_descriptions(browser_as):
    """16 of 23 kinds were of resources that do not exist."""
    page = browser_as("owner").get("/webhooks/new").text
    for kind in EVENT_KINDS.values():
        expected_count = kind.kind.startswith("instance.")
        assert page.count(f'value="{kind.kind}"') == expected_count
        assert (kind.description.replace("'", "&#39;") in page) == expected_count


def test_form_offers_exactly_the_recorded_event_kinds():
    """The offered kinds follow from the tables and equal those that the code records."""
    files = [*(ROOT / "panel" / "services").rglob("*.py"), *(ROOT / "worker").rglob("*.py")]
    source = "\n".join(file.read_text() for file in files)
    recorded = {kind for kind in EVENT_KINDS if f'"{kind}"' in source}
    assert {kind.kind for kinds in group_event_kinds().values() for kind in kinds} == recorded


def test_edit_form_keeps_event_kinds_that_are_not_offered(browser_as, subscription):
    subscription.event_kinds = ["pool.created", "instance.created"]
    session.commit()
    page = browser_as("owner").get(f"/webhooks/{subscription.id}/edit").text
    assert '<input type="hidden" name="event_kinds" value="pool.created">' in page


def test_form_errors_are_shown_at_their_fields(browser_as):
    wrong = {"name": "", "url": "https://127.0.0.1/", "secret": "short", "event_kinds": ""}
    answer = browser_as("owner").post("/webhooks/new", data=wrong)
    assert answer.status_code == 422
    for field in ("name", "secret", "event_kinds"):
        assert f'id="wrong-{field}"' in answer.text
    answer = browser_as("owner").post("/webhooks/new", data={**FORM, "url": "https://127.0.0.1/"})
    assert answer.status_code == 422
    assert "127.0.0.1, which is not a public address" in answer.text
    assert session.scalars(select(WebhookSubscription)).all() == []


def test_twenty_first_subscription_is_refused(browser_as, cast):
    for _ in range(subscriptions.MAX_SUBSCRIPTIONS):
        subscriptions.create(cast.owner, name="n", url="https://1.1.1.1/", secret=SECRET, event_kinds=["*"])
    session.commit()
    answer = browser_as("owner").post("/webhooks/new", data=FORM)
    assert (answer.status_code, "at most 20" in answer.text) == (422, True)


def test_form_buttons_fill_in_secret_and_event_kinds(browser_as):
    """A random secret and the kinds of a group, without JavaScript. Other fields keep their values."""
    browser = browser_as("owner")
    post_fill = lambda button, **fields: browser.post("/webhooks/new", data={"name": "<x>", "fill": button, **fields})  # noqa: E731
    read_secret = lambda page: re.search(r'name="secret"[^>]*value="([^"]*)"', page.text)[1]  # noqa: E731
    read_hidden_kinds = lambda page: set(re.findall(r'type="hidden" name="event_kinds" value="([^"]+)"', page.text))  # noqa: E731
    read_checked_kinds = lambda page: set(re.findall(r'name="event_kinds" value="([^"]+)"[^>]* checked', page.text))  # noqa: E731
    read_selected_kinds = lambda page: read_checked_kinds(page) | read_hidden_kinds(page)  # noqa: E731
    first, second = post_fill("secret"), post_fill("secret", event_kinds=["*"])
    assert re.fullmatch("[0-9a-f]{64}", read_secret(first))
    assert read_secret(first) != read_secret(second)
    assert read_selected_kinds(second) == {"*"}
    assert "It will not be shown again" in second.text
    assert 'value="&lt;x&gt;"' in first.text
    instances = {kind for kind in EVENT_KINDS if kind.startswith("instance.")}
    assert read_selected_kinds(post_fill("group:Instances", event_kinds=["pool.created"])) == instances | {
        "pool.created"
    }
    assert read_selected_kinds(post_fill("group:Instances", event_kinds=[*instances, "pool.created"])) == {
        "pool.created"
    }
    assert read_selected_kinds(post_fill("group:nonsense", event_kinds=["pool.created"])) == {"pool.created"}
    partial = browser.post("/webhooks/new", data={"name": "", "fill": "secret"}, headers=PARTIAL_HEADERS)
    assert partial.text.lstrip().startswith('<form id="form"')
    assert "is-invalid" not in partial.text
    assert session.scalars(select(WebhookSubscription)).all() == []


def test_edit_with_empty_secret_keeps_secret(browser_as, subscription):
    subscription.consecutive_failures = 3
    session.commit()
    path = f"/webhooks/{subscription.id}/edit"
    page = browser_as("owner").get(path).text
    assert 'value="https://1.1.1.1/hook?token=t0p"' in page
    change = {"name": "new", "url": "https://1.1.1.1/b", "secret": "", "event_kinds": ["", "pool.created"]}
    assert browser_as("owner").post(path, data=change).headers["Location"] == f"/webhooks/{subscription.id}"
    row = session.get(WebhookSubscription, subscription.id)
    assert (row.name, row.url, row.event_kinds) == ("new", "https://1.1.1.1/b", ["pool.created"])
    assert (row.secret, row.consecutive_failures, row.enabled) == (SECRET, 3, True)
    browser_as("owner").post(path, data={**change, "secret": "another one of 16"})
    assert session.get(WebhookSubscription, subscription.id).secret == "another one of 16"
    refused = browser_as("owner").post(path, data={**change, "url": "https://10.0.0.1/"})
    assert (refused.status_code, "10.0.0.1" in refused.text) == (422, True)
    assert session.get(WebhookSubscription, subscription.id).url == "https://1.1.1.1/b"


def test_page_of_automatically_disabled_subscription_enables_it(browser_as, subscription):
    """WHK-46 on the page."""
    subscription.enabled, subscription.disabled_at, subscription.consecutive_failures = (
        False,
        clock.now() - timedelta(hours=2),
        20,
    )
    session.commit()
    page = browser_as("owner").get(f"/webhooks/{subscription.id}").text
    assert 'id="disabled"' in page
    assert "20 failed deliveries in a row" in page
    assert "Disabled after failures" in browser_as("owner").get("/webhooks").text
    assert browser_as("owner").post(f"/webhooks/{subscription.id}/enable").status_code == 303
    row = session.get(WebhookSubscription, subscription.id)
    assert (row.enabled, row.consecutive_failures, row.disabled_at) == (True, 0, None)
    assert 'id="disabled"' not in browser_as("owner").get(f"/webhooks/{subscription.id}").text


def test_manually_disabled_subscription_shows_no_failure_notice(browser_as, subscription):
    answer = browser_as("owner").post(f"/webhooks/{subscription.id}/disable", headers=PARTIAL_HEADERS)
    assert answer.headers["HX-Trigger"] == "changed"
    assert session.get(WebhookSubscription, subscription.id).enabled is False
    page = browser_as("owner").get(f"/webhooks/{subscription.id}").text
    assert 'id="disabled"' not in page
    assert f'action="/webhooks/{subscription.id}/enable"' in page


def test_delete_on_webhook_page_redirects_to_list(browser_as, subscription):
    create_delivery(subscription)
    answer = browser_as("owner").post(
        f"/webhooks/{subscription.id}/delete", data={"leave": "1"}, headers=PARTIAL_HEADERS
    )
    assert answer.headers["HX-Redirect"] == "/webhooks"
    assert session.scalars(select(WebhookDelivery)).all() == []
    assert browser_as("owner").get(f"/webhooks/{subscription.id}").status_code == 404


def test_webhook_page_sends_and_shows_test_event(browser_as, subscription):
    browser = browser_as("owner")
    answer = browser.post(f"/webhooks/{subscription.id}/test", data={"kind": "cert.renewed"})
    delivery = session.scalars(select(WebhookDelivery)).one()
    assert (answer.status_code, delivery.test, delivery.event_kind, delivery.event_id) == (
        303,
        True,
        "cert.renewed",
        None,
    )
    page = browser.get(f"/webhooks/{subscription.id}").text
    assert "every 2s" in page
    assert f'href="/webhooks/{subscription.id}/deliveries/{delivery.id}"' in page
    page = browser.get(f"/webhooks/{subscription.id}/deliveries/{delivery.id}").text
    assert "No attempt yet." in page
    assert "&#34;test&#34;: true" in page
    assert "&#34;cluster&#34;" in page
    assert browser.post(f"/webhooks/{subscription.id}/test", data={"kind": "nosuch"}).status_code == 422


def test_delivery_page_shows_request_and_answers_without_secrets(browser_as, subscription):
    tries = [
        build_attempt(id="a-1", code=None, error="Nobody answered within 5 seconds.", body=None),
        build_attempt(id="a-2", code=401, body=f"<b>your {SECRET}</b>"),
    ]
    delivery = create_delivery(
        subscription, status="pending_retry", attempts=2, response_code=401, duration_ms=1234, tries=tries
    )
    answer = browser_as("owner").get(f"/webhooks/{subscription.id}/deliveries/{delivery.id}")
    assert SECRET not in answer.text
    assert "t0p" not in answer.text
    for text in (
        "POST /hook?token=•••",
        "Host: 1.1.1.1",
        "User-Agent: Hypervisor-Webhook/1.0",
        "X-Hypervisor-Delivery: a-2",
        "X-Hypervisor-Event: instance.created",
        f"X-Hypervisor-Event-Id: {delivery.event_id}",
        f"X-Hypervisor-Subscription: {subscription.id}",
        "X-Signature-256: sha256=•••",
        "&lt;b&gt;your •••&lt;/b&gt;",
        "Nobody answered within 5 seconds.",
        "1,234 ms",
        "Zürich",
    ):
        assert text in answer.text, text
    partial = (
        browser_as("owner").get(f"/webhooks/{subscription.id}/deliveries/{delivery.id}", headers=PARTIAL_HEADERS).text
    )
    assert partial.lstrip().startswith('<div id="delivery"')
    assert "every 2s" in partial


def test_webhook_page_resends_delivery(browser_as, subscription):
    row = create_delivery(subscription, status="failed_permanent", attempts=5, tries=[build_attempt()])
    path = f"/webhooks/{subscription.id}/deliveries/{row.id}"
    assert browser_as("owner").post(f"{path}/redeliver").headers["Location"] == path
    delivery = session.get(WebhookDelivery, row.id)
    assert (delivery.status, delivery.attempts, len(delivery.tries)) == ("pending", 0, 1)
    refused = browser_as("owner").post(f"{path}/redeliver")
    assert (refused.status_code, "It is still in progress." in refused.text) == (409, True)
    assert "It is still in progress." in browser_as("owner").get(path).text


def test_webhook_page_filters_deliveries_by_status(browser_as, subscription):
    failed, delivered = (
        create_delivery(subscription, status="failed_permanent"),
        create_delivery(subscription, status="delivered", response_code=200),
    )
    page = browser_as("owner").get(f"/webhooks/{subscription.id}?status=failed_permanent").text
    assert (f"delivery-{failed.id}" in page, f"delivery-{delivered.id}" in page) == (True, False)
    assert "None of these" in browser_as("owner").get(f"/webhooks/{subscription.id}?status=pending").text
    assert browser_as("owner").get(f"/webhooks/{subscription.id}?status=nosuch").text.count('id="delivery-') == 2


def test_view_permission_cannot_change_webhooks(browser_as, subscription):
    row = create_delivery(subscription, status="failed_permanent")
    browser = browser_as("viewer")
    for path in (
        "/webhooks",
        f"/webhooks/{subscription.id}",
        f"/webhooks/{subscription.id}/edit",
        f"/webhooks/{subscription.id}/deliveries/{row.id}",
    ):
        page = browser.get(path)
        assert page.status_code == 200
        assert "needs webhooks.manage" in page.text
    for path in ("test", "enable", "disable", "delete", "edit", f"deliveries/{row.id}/redeliver"):
        assert browser.post(f"/webhooks/{subscription.id}/{path}").status_code == 403, path
    assert browser.post("/webhooks/new", data=FORM).status_code == 403


def test_webhooks_are_hidden_without_view_permission(browser_as, cast, subscription):
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    role.permissions = ["instances.view"]
    session.commit()
    assert 'href="/webhooks"' not in browser_as("viewer").get("/").text
    assert browser_as("viewer").get("/webhooks").status_code == 403


def test_webhooks_of_other_accounts_are_not_found(browser_as, subscription):
    row = create_delivery(subscription, status="delivered")
    browser = browser_as("outsider")
    assert "Inventory" not in browser.get("/webhooks").text
    for path in ("", "/edit", f"/deliveries/{row.id}"):
        assert browser.get(f"/webhooks/{subscription.id}{path}").status_code == 404, path
    for path in ("test", "enable", "disable", "delete", "edit", f"deliveries/{row.id}/redeliver"):
        assert browser.post(f"/webhooks/{subscription.id}/{path}", data={"kind": "cert.renewed"}).status_code == 404, (
            path
        )


def test_webhook_pages_query_count_is_constant(browser_as, cast, subscription, queries):
    browser = browser_as("owner")
    row = create_delivery(subscription)
    paths = ("/webhooks", f"/webhooks/{subscription.id}", f"/webhooks/{subscription.id}/deliveries/{row.id}")

    def count_queries():
        counts = []
        for path in paths:
            queries.clear()
            assert browser.get(path).status_code == 200
            counts.append(len(queries))
        return counts

    count_queries()
    expected_counts = count_queries()
    for _ in range(5):
        subscriptions.create(cast.owner, name="n", url="https://1.1.1.1/", secret=SECRET, event_kinds=["*"])
        create_delivery(subscription, status="delivered", tries=[build_attempt()])
    session.commit()
    assert count_queries() == expected_counts
