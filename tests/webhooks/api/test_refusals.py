"""Invalid webhook subscriptions and their error messages."""

import ipaddress
import uuid

import pytest
from sqlalchemy import func, select

from panel.core.db import session
from panel.models import WebhookSubscription
from panel.services.webhooks import subscriptions, url_policy
from tests.webhooks.api.subscriptions import SUBSCRIPTION_BODY, SUBSCRIPTIONS_PATH, build_subscription_path

pytestmark = pytest.mark.usefixtures("unlimited_rates")


def test_webhook_subscription_required_fields(get_field_error):
    """WHK-09, WHK-11, WHK-22, WHK-24, WHK-25"""
    for field in ("name", "url", "secret", "event_kinds"):
        assert get_field_error(field, **{field: ...}) == "Missing data for required field."
        get_field_error(field, **{field: None})
    for value in ("instance.created", "*", {}, 1, []):
        get_field_error("event_kinds", event_kinds=value)


def test_webhook_subscription_field_lengths(create_subscription, get_field_error):
    """WHK-10, WHK-13, WHK-23, WHK-26"""
    maximal_url = "https://1.1.1.1/" + "a" * (1024 - 16)
    assert create_subscription(name="n" * 255)["name"] == "n" * 255
    assert create_subscription(url=maximal_url)["url"] == maximal_url
    for length in (16, 255):
        create_subscription(secret="s" * length)
    assert create_subscription(event_kinds=["instance.created", *["pool.created"] * 49])["event_kinds"] == [
        "instance.created",
        "pool.created",
    ]
    get_field_error("name", name="n" * 256)
    get_field_error("name", name="")
    get_field_error("url", url=maximal_url + "a")
    for length in (15, 256):
        get_field_error("secret", secret="s" * length)
    get_field_error("event_kinds", event_kinds=["instance.created"] * 51)


REFUSED_URLS = [
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


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_url_that_is_not_public_https_is_refused(create_subscription, get_field_error, api_as, url):
    """WHK-12, WHK-14, WHK-15, WHK-16, WHK-17, WHK-19, WHK-20, and WHK-21: a PATCH keeps the old URL."""
    assert get_field_error("url", url=url).endswith(".")
    path = build_subscription_path(create_subscription()["id"])
    get_field_error("url", path, "PATCH", url=url)
    assert api_as("owner", "GET", path).json["webhook_subscription"]["url"] == SUBSCRIPTION_BODY["url"]


def test_name_of_internal_address_is_refused(get_field_error, monkeypatch, create_subscription):
    """WHK-18"""
    addresses_by_name = {
        "inside.example.com": ["1.1.1.1", "127.0.0.1"],
        "six.example.com": ["::1"],
        "good.example.com": ["1.1.1.1"],
    }
    monkeypatch.setattr(
        url_policy, "resolve", lambda name: [ipaddress.ip_address(address) for address in addresses_by_name[name]]
    )
    assert "127.0.0.1" in get_field_error("url", url="https://inside.example.com/")
    assert "::1" in get_field_error("url", url="https://six.example.com/")
    assert create_subscription(url="https://good.example.com/")["url"] == "https://good.example.com/"


@pytest.mark.parametrize("kind", ["instance.exploded", "instance.*", "Instance.created", "", "**", "instance.created "])
def test_unknown_event_kind_error_names_kind_and_catalog(get_field_error, kind):
    """WHK-27, WHK-28"""
    message = get_field_error("event_kinds", event_kinds=["instance.created", kind])
    assert repr(kind) in message
    assert "GET /api/webhook-event-kinds" in message


def test_webhook_cluster_filter_is_validated(create_subscription, get_field_error, monkeypatch):
    """WHK-31, WHK-32, WHK-33, WHK-34"""
    ids = [str(uuid.uuid4()) for _ in range(101)]
    assert "no such cluster" in get_field_error("cluster_filter", cluster_filter=[ids[0]])
    assert create_subscription(cluster_filter=[])["cluster_filter"] is None
    assert create_subscription(cluster_filter=None)["cluster_filter"] is None
    get_field_error("cluster_filter", cluster_filter=["abc"])
    get_field_error("cluster_filter", cluster_filter=ids[0])
    monkeypatch.setattr(subscriptions, "get_cluster_ids", lambda access: set(ids[:100]))
    assert create_subscription(cluster_filter=ids[:100])["cluster_filter"] == ids[:100]
    subscription = create_subscription(cluster_filter=[ids[1], ids[1].upper()])
    assert subscription["cluster_filter"] == [ids[1]]
    assert "Longer than maximum length 100" in get_field_error("cluster_filter", cluster_filter=ids)
    assert ids[100] in get_field_error(
        "cluster_filter", build_subscription_path(subscription["id"]), "PATCH", cluster_filter=[ids[100]]
    )


INVALID_JSON_BODIES = [
    b"{",
    b"[]",
    b'[{"name": "x"}]',
    b"1",
    b"null",
    b"",
    b'"text"',
    b"true",
    b"\xff",
    b'{"a": NaN}',
    b"a=b",
]


@pytest.mark.parametrize("body", INVALID_JSON_BODIES)
def test_body_that_is_no_json_object_is_refused(api_as, create_subscription, body):
    """WHK-54; an empty PATCH changes nothing."""
    answer = api_as("owner", "POST", SUBSCRIPTIONS_PATH, data=body, content_type="application/json")
    assert (answer.status_code, answer.json["success"]) == (422, False)
    answer = api_as(
        "owner",
        "PATCH",
        build_subscription_path(create_subscription()["id"]),
        data=body,
        content_type="application/json",
    )
    assert answer.status_code == (200 if body in (b"", b"null") else 422)


@pytest.mark.parametrize("field", [*SUBSCRIPTION_BODY, "cluster_filter", "enabled"])
def test_wrong_value_types_are_refused(get_field_error, field):
    """WHK-54"""
    for value in (1, 1.5, {"a": 1}, [[1]], [{}], [None], True if field != "enabled" else "yes", "\x00" * 20):
        if isinstance(value, str) and field == "event_kinds":
            continue
        get_field_error(field, **{field: value})
    assert session.scalar(select(func.count()).select_from(WebhookSubscription)) == 0


def test_unknown_field_is_named_in_error(get_field_error):
    assert get_field_error("consecutive_failures", consecutive_failures=0) == "Unknown field."


@pytest.mark.parametrize("name", [" ", "   ", "\u00a0", "a\u202eb"])
def test_blank_name_is_refused(create_subscription, get_field_error, api_as, name):
    """WHK-09: on create and on change; spaces at the ends do not count."""
    get_field_error("name", name=name)
    subscription = create_subscription(name="  Inventory ")
    assert subscription["name"] == "Inventory"
    get_field_error("name", path=build_subscription_path(subscription["id"]), method="PATCH", name=name)
