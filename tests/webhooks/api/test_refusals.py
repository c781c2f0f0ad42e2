"""What a webhook subscription may not be, and how that is said."""

import ipaddress
import uuid

import pytest
from sqlalchemy import func, select

from panel.core.db import session
from panel.models import WebhookSubscription
from panel.services.webhooks import subscriptions, url_policy
from tests.webhooks.api.conftest import SUBSCRIPTION_BODY, SUBSCRIPTIONS_PATH, item_path

pytestmark = pytest.mark.usefixtures("unlimited")


def test_webhook_subscription_required_fields(refused_field):
    """WHK-09, WHK-11, WHK-22, WHK-24, WHK-25"""
    for field in ("name", "url", "secret", "event_kinds"):
        assert refused_field(field, **{field: ...}) == "Missing data for required field."
        refused_field(field, **{field: None})
    for value in ("instance.created", "*", {}, 1, []):
        refused_field("event_kinds", event_kinds=value)


def test_webhook_subscription_field_lengths(create_subscription, refused_field):
    """WHK-10, WHK-13, WHK-23, WHK-26"""
    long = "https://1.1.1.1/" + "a" * (1024 - 16)
    assert create_subscription(name="n" * 255)["name"] == "n" * 255
    assert create_subscription(url=long)["url"] == long
    for length in (16, 255):
        create_subscription(secret="s" * length)
    assert create_subscription(event_kinds=["instance.created", *["pool.created"] * 49])["event_kinds"] == [
        "instance.created",
        "pool.created",
    ]
    refused_field("name", name="n" * 256)
    refused_field("name", name="")
    refused_field("url", url=long + "a")
    for length in (15, 256):
        refused_field("secret", secret="s" * length)
    refused_field("event_kinds", event_kinds=["instance.created"] * 51)


BAD_URLS = [
    "http://1.1.1.1/",
    "ftp://1.1.1.1/",
    "//1.1.1.1/",
    "1.1.1.1",
    "https://",
    "https://127.0.0.1/",
    "https://127.1.2.3/",
    "https://localhost/",
    "https://localhost./",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://169.254.169.254/",
    "https://[fe80::1]/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.0.1/",
    "https://[fd00::1]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://0/",
    "https://127.1/",
    "https://user@1.1.1.1/",
    "https://user:pass@1.1.1.1/",
    "https://0.0.0.0/",
    "https://[::]/",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_addresses_that_are_refused(create_subscription, refused_field, api_as, url):
    """WHK-12, WHK-14, WHK-15, WHK-16, WHK-17, WHK-19, WHK-20, and WHK-21: on PATCH, which keeps the old one."""
    assert refused_field("url", url=url).endswith(".")
    path = item_path(create_subscription()["id"])
    refused_field("url", path, "PATCH", url=url)
    assert api_as("owner", "GET", path).json["webhook_subscription"]["url"] == SUBSCRIPTION_BODY["url"]


def test_names_that_lead_inside_are_refused(refused_field, monkeypatch, create_subscription):
    """WHK-18"""
    known = {
        "inside.example.com": ["1.1.1.1", "127.0.0.1"],
        "six.example.com": ["::1"],
        "good.example.com": ["1.1.1.1"],
    }
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ipaddress.ip_address(each) for each in known[name]])
    assert "127.0.0.1" in refused_field("url", url="https://inside.example.com/")
    assert "::1" in refused_field("url", url="https://six.example.com/")
    assert create_subscription(url="https://good.example.com/")["url"] == "https://good.example.com/"


@pytest.mark.parametrize("kind", ["instance.exploded", "instance.*", "Instance.created", "", "**", "instance.created "])
def test_unknown_kinds_are_named_and_the_catalog_is_pointed_to(refused_field, kind):
    """WHK-27, WHK-28"""
    message = refused_field("event_kinds", event_kinds=["instance.created", kind])
    assert repr(kind) in message
    assert "GET /api/webhook-event-kinds" in message


def test_webhook_cluster_filter_is_validated(create_subscription, refused_field, monkeypatch):
    """WHK-31, WHK-32, WHK-33, WHK-34"""
    ids = [str(uuid.uuid4()) for _ in range(101)]
    assert "no such cluster" in refused_field("cluster_filter", cluster_filter=[ids[0]])
    assert create_subscription(cluster_filter=[])["cluster_filter"] is None
    assert create_subscription(cluster_filter=None)["cluster_filter"] is None
    refused_field("cluster_filter", cluster_filter=["abc"])
    refused_field("cluster_filter", cluster_filter=ids[0])
    monkeypatch.setattr(subscriptions, "get_cluster_ids", lambda access: set(ids[:100]))
    assert create_subscription(cluster_filter=ids[:100])["cluster_filter"] == ids[:100]
    made = create_subscription(cluster_filter=[ids[1], ids[1].upper()])
    assert made["cluster_filter"] == [ids[1]]
    assert "Longer than maximum length 100" in refused_field("cluster_filter", cluster_filter=ids)
    assert ids[100] in refused_field("cluster_filter", item_path(made["id"]), "PATCH", cluster_filter=[ids[100]])


NO_OBJECTS = [b"{", b"[]", b'[{"name": "x"}]', b"1", b"null", b"", b'"text"', b"true", b"\xff", b'{"a": NaN}', b"a=b"]


@pytest.mark.parametrize("body", NO_OBJECTS)
def test_bodies_that_are_no_objects(api_as, create_subscription, body):
    """WHK-54; a PATCH of nothing changes nothing"""
    answer = api_as("owner", "POST", SUBSCRIPTIONS_PATH, data=body, content_type="application/json")
    assert (answer.status_code, answer.json["success"]) == (422, False)
    answer = api_as(
        "owner", "PATCH", item_path(create_subscription()["id"]), data=body, content_type="application/json"
    )
    assert answer.status_code == (200 if body in (b"", b"null") else 422)


@pytest.mark.parametrize("field", [*SUBSCRIPTION_BODY, "cluster_filter", "enabled"])
def test_values_of_wrong_types(refused_field, field):
    """WHK-54"""
    for value in (1, 1.5, {"a": 1}, [[1]], [{}], [None], True if field != "enabled" else "yes", "\x00" * 20):
        if isinstance(value, str) and field == "event_kinds":
            continue
        refused_field(field, **{field: value})
    assert session.scalar(select(func.count()).select_from(WebhookSubscription)) == 0


def test_unknown_fields_are_named(refused_field):
    refused_field("consecutive_failures", consecutive_failures=0)


@pytest.mark.parametrize("name", [" ", "   ", "\u00a0", "a\u202eb"])
def test_blank_names_are_refused(create_subscription, refused_field, api_as, name):
    """WHK-09, finding B6: on create and on change; spaces at the ends do not count."""
    refused_field("name", name=name)
    made = create_subscription(name="  Inventory ")
    assert made["name"] == "Inventory"
    refused_field("name", path=item_path(made["id"]), method="PATCH", name=name)
