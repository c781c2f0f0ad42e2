"""Sending notifications to channels."""

import json

import pytest
from sqlalchemy import select, update

from panel.core import clock
from panel.core.db import session
from panel.models import AlertNotification, Mail
from panel.services import accounts, alert_messages, notification_channels
from panel.services.webhooks import signing
from tests.support.webhook_receiver import WEBHOOK_SECRET
from worker.tasks import alert_rules as tasks
from worker.tasks import mail as mail_tasks


@pytest.fixture
def fire(cast, create_rule, evaluate_at):
    """Return a function that makes a rule with this channel fire."""

    def fire(channel, **rule):
        create_rule(channel_ids=[channel.id], **rule)
        evaluate_at(0, 95, cast.instance(display_name="web-1"))

    return fire


def send():
    tasks.send_due()
    session.expire_all()


@pytest.mark.parametrize(("type", "key"), [("slack", "text"), ("discord", "content")])
def test_chat_gets_alert_once(fire, create_channel, receiver, type, key):
    channel = create_channel(type=type, config={"webhook_url": receiver.url("/services/x")})
    fire(channel)
    send()
    send()
    [post] = receiver.posts
    assert (post.method, post.path) == ("POST", "/services/x")
    text = json.loads(post.body)[key]
    assert text.replace("&gt;", ">").startswith("Alert: CPU\nweb-1: CPU usage > 90 %")
    assert "90 %, now 95 %" in text
    assert (channel.failure_count, channel.last_error) == (0, None)
    assert channel.last_sent_at is not None


def test_webhook_is_signed(fire, create_channel, receiver):
    config = {"url": receiver.url(), "secret": WEBHOOK_SECRET, "headers": {"X-Team": "ops"}, "timeout": "5"}
    fire(create_channel(type="webhook", config=config))
    send()
    [post] = receiver.posts
    assert post.headers["X-Signature-256"] == signing.sign_payload(post.body, WEBHOOK_SECRET)
    assert post.headers["X-Team"] == "ops"
    body = json.loads(post.body)
    assert (body["kind"], body["resource"]["name"], body["value"]) == ("firing", "web-1", 95)


def test_mail_goes_to_the_owner(cast, fire, create_channel):
    channel = create_channel()
    fire(channel)
    send()
    [mail] = session.scalars(select(Mail)).all()
    assert (mail.recipient, mail.template, mail.facts["name"]) == (cast.owner.email, "alert", "CPU")
    assert channel.last_sent_at is not None


def test_mail_names_metric_and_value_in_the_language_of_its_recipient(fire, create_channel):
    fire(create_channel(), metric="cpu", threshold=11.15)
    send()
    row = session.scalars(select(Mail)).one()
    text = mail_tasks.compose(row, row.facts, "de").get_body(("plain",)).get_content()
    assert "CPU-Auslastung > 11,15 %" in text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("disk_read_bytes", 5e6, "5 MB/s"),
        ("cpu", 11.15, "11.15 %"),
        ("disk_write_iops", 12345, "12,340 IOPS"),
        ("bandwidth_in", 0.5, "0.5 Mbit/s"),
    ],
)
def test_values_have_units_and_few_digits(metric, value, text):
    assert alert_messages.format_value(metric, value) == text


def test_failure_is_shown_and_retried(fire, create_channel, receiver, monkeypatch):
    channel = create_channel(type="slack", config={"webhook_url": receiver.url()})
    fire(channel)
    receiver.answers = [500]
    send()
    notification = session.scalars(select(AlertNotification)).one()
    assert (notification.status, notification.attempts, channel.failure_count) == ("pending", 1, 0)
    assert "500" in channel.last_error
    monkeypatch.setattr(clock, "now", lambda now=notification.due_at: now)
    send()
    assert (notification.status, len(receiver.posts), channel.last_error) == ("delivered", 2, None)


def test_tenth_failure_disables_the_channel(fire, create_channel, receiver):
    channel = create_channel(type="slack", config={"webhook_url": receiver.url()})
    fire(channel)
    channel.failure_count = 9
    notification = session.scalars(select(AlertNotification)).one()
    notification.attempts = 4
    session.commit()
    receiver.answer = 404
    send()
    assert (channel.enabled, channel.auto_disabled, channel.failure_count) == (False, True, 10)
    assert notification.status == "failed"
    notification_channels.update(channel, enabled=True)
    assert (channel.enabled, channel.auto_disabled, channel.failure_count) == (True, False, 0)


def test_address_is_checked_again_when_sent(fire, create_channel, receiver, change_config):
    channel = create_channel(type="slack", config={"webhook_url": receiver.url()})
    change_config(webhook_allowed_networks="")
    notification_channels.send_test(channel)
    send()
    assert receiver.posts == []
    assert "not a public address" in channel.last_error
    assert channel.failure_count == 0


def test_claimed_notification_is_sent_by_another_worker_after_the_lease(fire, create_channel, receiver, monkeypatch):
    fire(create_channel(type="slack", config={"webhook_url": receiver.url()}))
    tasks.claim()
    session.commit()
    send()
    assert receiver.posts == []
    later = clock.now() + tasks.NOTIFICATION_LEASE
    monkeypatch.setattr(clock, "now", lambda: later)
    send()
    assert len(receiver.posts) == 1


def test_disabled_channel_sends_tests_only(fire, create_channel, receiver):
    channel = create_channel(type="slack", config={"webhook_url": receiver.url()})
    fire(channel)
    notification_channels.update(channel, enabled=False)
    notification_channels.send_test(channel)
    send()
    assert [json.loads(post.body)["text"] for post in receiver.posts] == [
        "Test message: this notification channel works."
    ]
    notification_channels.update(channel, enabled=True)
    send()
    assert len(receiver.posts) == 2


def test_message_that_cannot_be_built_fails_alone(fire, create_channel, receiver, monkeypatch):
    broken = create_channel(type="slack", config={"webhook_url": receiver.url("/broken")})
    other = create_channel(type="discord", config={"webhook_url": receiver.url("/other")}, name="other")
    for channel in (broken, other):
        notification_channels.send_test(channel)
    session.commit()
    build = alert_messages.build_request
    monkeypatch.setattr(
        alert_messages, "build_request", lambda type, *args: build(type, *args) if type == "discord" else 1 / 0
    )
    send()
    assert [post.path for post in receiver.posts] == ["/other"]
    assert (broken.last_error, other.last_error) == ("The message could not be built.", None)


def test_outcome_of_a_lost_lease_is_not_recorded(fire, create_channel, receiver):
    fire(create_channel(type="slack", config={"webhook_url": receiver.url()}))
    [[job]] = tasks.claim()
    notification = session.scalars(select(AlertNotification)).one()
    session.execute(update(AlertNotification).values(due_at=clock.now() + 2 * tasks.NOTIFICATION_LEASE))
    session.commit()
    tasks.record(tasks.Outcome(job, None))
    session.expire_all()
    assert (notification.status, notification.attempts) == ("pending", 0)


def test_nothing_is_sent_for_a_suspended_account(cast, fire, create_channel, receiver):
    fire(create_channel(type="slack", config={"webhook_url": receiver.url()}))
    cast.owner.suspended_at = clock.now()  # after the evaluation, before the message
    session.commit()
    send()
    assert receiver.posts == []
    accounts.unsuspend(cast.owner)
    session.commit()
    send()
    assert len(receiver.posts) == 1
