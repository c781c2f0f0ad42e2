"""Webhooks on the customers' pages."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.config import ROOT
from panel.core.db import session
from panel.models import AuditEntry, Event, Member, WebhookDelivery, WebhookSubscription
from panel.pages.customer.webhooks import event_kind_groups
from panel.schemas.webhooks import EVENT_KINDS
from panel.services.webhooks import subscriptions
from tests.test_pages import PARTIAL_HEADERS

SECRET = "correct horse battery"
FORM = {"name": "Inventory", "url": "https://1.1.1.1/hook", "secret": SECRET, "event_kinds": ["", "instance.created"]}


@pytest.fixture
def hook(cast):
    facts = {"name": "Inventory", "url": "https://1.1.1.1/hook?token=t0p", "secret": SECRET, "event_kinds": ["*"]}
    made = subscriptions.create(cast.owner, **facts)
    session.commit()
    return made


def delivery(hook, **facts):
    event = Event(account_id=hook.account_id, kind="instance.created", resource_type="instance", resource_id="i")
    event.snapshot = {"id": "i", "display_name": "Zürich"}
    event.data = {}
    session.add(event)
    session.flush()
    made = WebhookDelivery(
        account_id=hook.account_id, subscription_id=hook.id, event_id=event.id, event_kind=event.kind, **facts
    )
    session.add(made)
    session.commit()
    return made


def attempt(**facts):
    known = {"id": "a-1", "at": clock.now().isoformat(), "code": 500, "duration_ms": 1234, "error": None, "body": "no"}
    return {**known, **facts}


def test_nothing_yet_says_what_to_do(browser_as, hook):
    page = browser_as("outsider").get("/webhooks").text
    assert "No webhook yet" in page
    assert "POST /api/webhook-subscriptions" in page
    assert 'href="/webhooks/new"' in page
    assert "No deliveries yet" in browser_as("owner").get(f"/webhooks/{hook.id}").text


def test_webhook_page_creates_subscription(browser_as, cast):
    browser = browser_as("owner")
    answer = browser.post("/webhooks/new", data=FORM)
    made = session.scalars(select(WebhookSubscription)).one()
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/webhooks/{made.id}")
    assert (made.account_id, made.name, made.url, made.secret) == (cast.owner.id, *list(FORM.values())[:3])
    assert (made.event_kinds, made.enabled, made.cluster_filter) == (["instance.created"], True, None)
    for path in ("/webhooks", f"/webhooks/{made.id}", f"/webhooks/{made.id}/edit"):
        assert SECRET not in browser.get(path).text
    assert session.scalars(select(AuditEntry.action)).all() == ["webhooks.create"]


def test_the_form_shows_the_kinds_that_can_happen_with_their_descriptions(browser_as):
    """Finding M6: 16 of 23 kinds were of resources that do not exist."""
    page = browser_as("owner").get("/webhooks/new").text
    for kind in EVENT_KINDS.values():
        possible = kind.kind.startswith("instance.")
        assert page.count(f'value="{kind.kind}"') == possible
        assert (kind.description.replace("'", "&#39;") in page) == possible


def test_the_form_offers_just_the_kinds_that_the_product_records():
    """Finding M6: what is offered follows from the tables, and agrees with what the code records."""
    files = [*(ROOT / "panel" / "services").rglob("*.py"), *(ROOT / "worker").rglob("*.py")]
    source = "\n".join(file.read_text() for file in files)
    recorded = {kind for kind in EVENT_KINDS if f'"{kind}"' in source}
    assert {kind.kind for kinds in event_kind_groups().values() for kind in kinds} == recorded


def test_an_edit_keeps_kinds_that_are_not_offered(browser_as, hook):
    hook.event_kinds = ["pool.created", "instance.created"]
    session.commit()
    page = browser_as("owner").get(f"/webhooks/{hook.id}/edit").text
    assert '<input type="hidden" name="event_kinds" value="pool.created">' in page


def test_what_is_wrong_stands_beside_its_field(browser_as):
    wrong = {"name": "", "url": "https://127.0.0.1/", "secret": "short", "event_kinds": ""}
    answer = browser_as("owner").post("/webhooks/new", data=wrong)
    assert answer.status_code == 422
    for field in ("name", "secret", "event_kinds"):
        assert f'id="wrong-{field}"' in answer.text
    answer = browser_as("owner").post("/webhooks/new", data={**FORM, "url": "https://127.0.0.1/"})
    assert answer.status_code == 422
    assert "127.0.0.1, which is not a public address" in answer.text
    assert session.scalars(select(WebhookSubscription)).all() == []


def test_the_twenty_first_is_refused_with_a_sentence(browser_as, cast):
    for _ in range(subscriptions.MAX_SUBSCRIPTIONS):
        subscriptions.create(cast.owner, name="n", url="https://1.1.1.1/", secret=SECRET, event_kinds=["*"])
    session.commit()
    answer = browser_as("owner").post("/webhooks/new", data=FORM)
    assert (answer.status_code, "at most 20" in answer.text) == (422, True)


def test_buttons_fill_the_form_in_and_keep_the_rest(browser_as):
    """A secret that nobody guesses, and the kinds of a group, without JavaScript."""
    browser = browser_as("owner")
    fill = lambda what, **more: browser.post("/webhooks/new", data={"name": "<x>", "fill": what, **more})  # noqa: E731
    value = lambda page: re.search(r'name="secret"[^>]*value="([^"]*)"', page.text)[1]  # noqa: E731
    hidden = lambda page: set(re.findall(r'type="hidden" name="event_kinds" value="([^"]+)"', page.text))  # noqa: E731
    boxes = lambda page: set(re.findall(r'name="event_kinds" value="([^"]+)"[^>]* checked', page.text))  # noqa: E731
    ticked = lambda page: boxes(page) | hidden(page)  # noqa: E731
    one, two = fill("secret"), fill("secret", event_kinds=["*"])
    assert re.fullmatch("[0-9a-f]{64}", value(one))
    assert value(one) != value(two)
    assert ticked(two) == {"*"}
    assert "It will not be shown again" in two.text
    assert 'value="&lt;x&gt;"' in one.text
    instances = {kind for kind in EVENT_KINDS if kind.startswith("instance.")}
    assert ticked(fill("group:Instances", event_kinds=["pool.created"])) == instances | {"pool.created"}
    assert ticked(fill("group:Instances", event_kinds=[*instances, "pool.created"])) == {"pool.created"}
    assert ticked(fill("group:nonsense", event_kinds=["pool.created"])) == {"pool.created"}
    part = browser.post("/webhooks/new", data={"name": "", "fill": "secret"}, headers=PARTIAL_HEADERS)
    assert part.text.lstrip().startswith('<form id="form"')
    assert "is-invalid" not in part.text
    assert session.scalars(select(WebhookSubscription)).all() == []


def test_edit_keeps_the_secret_that_is_not_named(browser_as, hook):
    hook.consecutive_failures = 3
    session.commit()
    path = f"/webhooks/{hook.id}/edit"
    page = browser_as("owner").get(path).text
    assert 'value="https://1.1.1.1/hook?token=t0p"' in page
    change = {"name": "new", "url": "https://1.1.1.1/b", "secret": "", "event_kinds": ["", "pool.created"]}
    assert browser_as("owner").post(path, data=change).headers["Location"] == f"/webhooks/{hook.id}"
    found = session.get(WebhookSubscription, hook.id)
    assert (found.name, found.url, found.event_kinds) == ("new", "https://1.1.1.1/b", ["pool.created"])
    assert (found.secret, found.consecutive_failures, found.enabled) == (SECRET, 3, True)
    browser_as("owner").post(path, data={**change, "secret": "another one of 16"})
    assert session.get(WebhookSubscription, hook.id).secret == "another one of 16"
    refused = browser_as("owner").post(path, data={**change, "url": "https://10.0.0.1/"})
    assert (refused.status_code, "10.0.0.1" in refused.text) == (422, True)
    assert session.get(WebhookSubscription, hook.id).url == "https://1.1.1.1/b"


def test_one_that_was_switched_off_says_so_and_is_enabled_by_one_click(browser_as, hook):
    """WHK-46 on the page"""
    hook.enabled, hook.disabled_at, hook.consecutive_failures = False, clock.now() - timedelta(hours=2), 20
    session.commit()
    page = browser_as("owner").get(f"/webhooks/{hook.id}").text
    assert 'id="disabled"' in page
    assert "20 failed deliveries in a row" in page
    assert "Disabled after failures" in browser_as("owner").get("/webhooks").text
    assert browser_as("owner").post(f"/webhooks/{hook.id}/enable").status_code == 303
    found = session.get(WebhookSubscription, hook.id)
    assert (found.enabled, found.consecutive_failures, found.disabled_at) == (True, 0, None)
    assert 'id="disabled"' not in browser_as("owner").get(f"/webhooks/{hook.id}").text


def test_one_that_a_person_switched_off_is_only_off(browser_as, hook):
    stays = browser_as("owner").post(f"/webhooks/{hook.id}/disable", headers=PARTIAL_HEADERS)
    assert stays.headers["HX-Trigger"] == "changed"
    assert session.get(WebhookSubscription, hook.id).enabled is False
    page = browser_as("owner").get(f"/webhooks/{hook.id}").text
    assert 'id="disabled"' not in page
    assert f'action="/webhooks/{hook.id}/enable"' in page


def test_whoever_deletes_on_the_page_of_the_webhook_leaves_it(browser_as, hook):
    delivery(hook)
    leaves = browser_as("owner").post(f"/webhooks/{hook.id}/delete", data={"leave": "1"}, headers=PARTIAL_HEADERS)
    assert leaves.headers["HX-Redirect"] == "/webhooks"
    assert session.scalars(select(WebhookDelivery)).all() == []
    assert browser_as("owner").get(f"/webhooks/{hook.id}").status_code == 404


def test_a_test_event_is_sent_and_looked_at(browser_as, hook):
    browser = browser_as("owner")
    answer = browser.post(f"/webhooks/{hook.id}/test", data={"kind": "cert.renewed"})
    made = session.scalars(select(WebhookDelivery)).one()
    assert (answer.status_code, made.test, made.event_kind, made.event_id) == (303, True, "cert.renewed", None)
    page = browser.get(f"/webhooks/{hook.id}").text
    assert "every 2s" in page
    assert f'href="/webhooks/{hook.id}/deliveries/{made.id}"' in page
    page = browser.get(f"/webhooks/{hook.id}/deliveries/{made.id}").text
    assert "No attempt yet." in page
    assert "&#34;test&#34;: true" in page
    assert "&#34;cluster&#34;" in page
    assert browser.post(f"/webhooks/{hook.id}/test", data={"kind": "nosuch"}).status_code == 422


def test_a_delivery_shows_request_and_answers_without_secrets(browser_as, hook):
    tries = [
        attempt(id="a-1", code=None, error="Nobody answered within 5 seconds.", body=None),
        attempt(id="a-2", code=401, body=f"<b>your {SECRET}</b>"),
    ]
    row = delivery(hook, status="pending_retry", attempts=2, response_code=401, duration_ms=1234, tries=tries)
    answer = browser_as("owner").get(f"/webhooks/{hook.id}/deliveries/{row.id}")
    assert SECRET not in answer.text
    assert "t0p" not in answer.text
    for text in (
        "POST /hook?token=•••",
        "Host: 1.1.1.1",
        "User-Agent: Hypervisor-Webhook/1.0",
        "X-Hypervisor-Delivery: a-2",
        "X-Hypervisor-Event: instance.created",
        f"X-Hypervisor-Event-Id: {row.event_id}",
        f"X-Hypervisor-Subscription: {hook.id}",
        "X-Signature-256: sha256=•••",
        "&lt;b&gt;your •••&lt;/b&gt;",
        "Nobody answered within 5 seconds.",
        "1,234 ms",
        "Zürich",
    ):
        assert text in answer.text, text
    part = browser_as("owner").get(f"/webhooks/{hook.id}/deliveries/{row.id}", headers=PARTIAL_HEADERS).text
    assert part.lstrip().startswith('<div id="delivery"')
    assert "every 2s" in part


def test_webhook_page_resends_delivery(browser_as, hook):
    row = delivery(hook, status="failed_permanent", attempts=5, tries=[attempt()])
    path = f"/webhooks/{hook.id}/deliveries/{row.id}"
    assert browser_as("owner").post(f"{path}/redeliver").headers["Location"] == path
    found = session.get(WebhookDelivery, row.id)
    assert (found.status, found.attempts, len(found.tries)) == ("pending", 0, 1)
    refused = browser_as("owner").post(f"{path}/redeliver")
    assert (refused.status_code, "It is still in progress." in refused.text) == (409, True)
    assert "It is still in progress." in browser_as("owner").get(path).text


def test_deliveries_by_status(browser_as, hook):
    failed, fine = delivery(hook, status="failed_permanent"), delivery(hook, status="delivered", response_code=200)
    page = browser_as("owner").get(f"/webhooks/{hook.id}?status=failed_permanent").text
    assert (f"delivery-{failed.id}" in page, f"delivery-{fine.id}" in page) == (True, False)
    assert "None of these" in browser_as("owner").get(f"/webhooks/{hook.id}?status=pending").text
    assert browser_as("owner").get(f"/webhooks/{hook.id}?status=nosuch").text.count('id="delivery-') == 2


def test_a_role_that_only_looks(browser_as, hook):
    row = delivery(hook, status="failed_permanent")
    browser = browser_as("viewer")
    for path in (
        "/webhooks",
        f"/webhooks/{hook.id}",
        f"/webhooks/{hook.id}/edit",
        f"/webhooks/{hook.id}/deliveries/{row.id}",
    ):
        page = browser.get(path)
        assert page.status_code == 200
        assert "needs webhooks.manage" in page.text
    for path in ("test", "enable", "disable", "delete", "edit", f"deliveries/{row.id}/redeliver"):
        assert browser.post(f"/webhooks/{hook.id}/{path}").status_code == 403, path
    assert browser.post("/webhooks/new", data=FORM).status_code == 403


def test_who_may_not_see_webhooks_is_not_shown_the_way(browser_as, cast, hook):
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    role.permissions = ["instances.view"]
    session.commit()
    assert 'href="/webhooks"' not in browser_as("viewer").get("/").text
    assert browser_as("viewer").get("/webhooks").status_code == 403


def test_outsiders_find_nothing(browser_as, hook):
    row = delivery(hook, status="delivered")
    browser = browser_as("outsider")
    assert "Inventory" not in browser.get("/webhooks").text
    for path in ("", "/edit", f"/deliveries/{row.id}"):
        assert browser.get(f"/webhooks/{hook.id}{path}").status_code == 404, path
    for path in ("test", "enable", "disable", "delete", "edit", f"deliveries/{row.id}/redeliver"):
        assert browser.post(f"/webhooks/{hook.id}/{path}", data={"kind": "cert.renewed"}).status_code == 404, path


def test_lists_ask_the_database_as_often_for_many_rows(browser_as, cast, hook, queries):
    browser = browser_as("owner")
    row = delivery(hook)
    paths = ("/webhooks", f"/webhooks/{hook.id}", f"/webhooks/{hook.id}/deliveries/{row.id}")

    def asked():
        seen = []
        for path in paths:
            queries.clear()
            assert browser.get(path).status_code == 200
            seen.append(len(queries))
        return seen

    asked()
    few = asked()
    for _ in range(5):
        subscriptions.create(cast.owner, name="n", url="https://1.1.1.1/", secret=SECRET, event_kinds=["*"])
        delivery(hook, status="delivered", tries=[attempt()])
    session.commit()
    assert asked() == few
