"""When alerts fire, end, remind and have no data."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm.exc import StaleDataError

from panel.core import clock
from panel.core.db import session
from panel.models import AlertEvent, AlertNotification, AlertRule, AlertState, GuestInfo, InboxMessage
from panel.services import accounts, alert_evaluation, alert_rules, events
from panel.services.access import Access
from panel.services.instances import ownership
from worker.tasks import alert_rules as tasks


def list_kinds():
    return session.scalars(select(AlertEvent.kind).order_by(AlertEvent.id)).all()


def count_notifications():
    return session.scalar(select(func.count(AlertNotification.id)))


def test_alert_fires_after_its_duration_and_ends_after_it(cast, create_rule, create_channel, evaluate_at):
    instance = cast.instance()
    rule = create_rule(duration=120, channel_ids=[create_channel().id], resource_id=instance.id)
    for minute, cpu, status in ((0, 95, "ok"), (1, 95, "ok"), (2, 95, "firing"), (3, 10, "firing"), (4, 99, "firing")):
        evaluate_at(minute, cpu, instance)
        assert rule.status == status, minute
    for minute, cpu, status in ((5, 1, "firing"), (6, 1, "firing"), (7, 1, "ok"), (8, 1, "ok")):
        evaluate_at(minute, cpu, instance)
        assert rule.status == status, minute
    assert list_kinds() == ["firing", "resolved"]
    assert count_notifications() == 2


def test_alert_is_in_the_inbox_once(cast, create_rule, evaluate_at):
    """The owner and the viewer see all instances, the member none."""
    create_rule(reminder_interval=60)
    instance = cast.instance(display_name="web-1")
    for minute in range(3):
        evaluate_at(minute, 95, instance)
    rows = session.execute(select(InboxMessage.account_id, InboxMessage.text)).all()
    assert {row.account_id for row in rows} == {cast.owner.id, cast.viewer.id}
    assert [row.text for row in rows] == ["Alert CPU: web-1"] * 2


def test_second_evaluation_of_the_same_values_makes_no_second_notification(
    cast, create_rule, create_channel, evaluate_at
):
    instance = cast.instance()
    create_rule(channel_ids=[create_channel().id])
    evaluate_at(0, 95, instance)
    tasks.evaluate_all()
    assert (list_kinds(), count_notifications()) == (["firing"], 1)


def test_interrupted_evaluation_is_repeated(cast, create_rule, create_channel, evaluate_at, monkeypatch):
    instance = cast.instance()
    rule = create_rule(channel_ids=[create_channel().id])

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(alert_evaluation, "make_notifications", fail)
        try:
            evaluate_at(0, 95, instance)
        except KeyboardInterrupt:
            session.rollback()
    assert (rule.status, list_kinds()) == ("ok", [])
    evaluate_at(0, 95, instance)
    assert (rule.status, list_kinds(), count_notifications()) == ("firing", ["firing"], 1)


def test_gap_in_the_values_keeps_the_status(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rule = create_rule()
    evaluate_at(0)
    assert (rule.status, rule.no_data) == ("ok", True)
    evaluate_at(5, 95, instance)
    assert (rule.status, rule.no_data) == ("firing", False)
    evaluate_at(10)
    assert (rule.status, rule.no_data) == ("firing", True)
    evaluate_at(15, 1, instance)
    assert (rule.status, rule.no_data) == ("ok", False)
    assert session.scalars(select(AlertState)).all() == []


def test_reminders_stop_after_acknowledgment(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rule = create_rule(reminder_interval=300)
    for minute in (0, 3, 5, 9, 10):
        evaluate_at(minute, 95, instance)
    assert list_kinds() == ["firing", "reminder", "reminder"]
    alert_rules.acknowledge(rule, "olga")
    session.commit()
    assert rule.acknowledged
    evaluate_at(20, 95, instance)
    assert list_kinds()[3:] == ["acknowledged"]
    evaluate_at(21, 1, instance)
    evaluate_at(22, 95, instance)
    assert not rule.acknowledged
    assert list_kinds()[4:] == ["resolved", "firing"]


def test_job_that_runs_a_little_early_reminds_and_fires(cast, create_rule, evaluate_at):
    """The time between two evaluations varies by tenths of a second."""
    instance = cast.instance()
    create_rule(reminder_interval=60, duration=60)
    for minute in (0, 0.995, 1.99):
        evaluate_at(minute, 95, instance)
    assert list_kinds() == ["firing", "reminder"]


def test_disabled_and_foreign_rules_stay_ok(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rules = [create_rule(enabled=False), create_rule("outsider")]
    evaluate_at(0, 95, instance)
    assert [rule.status for rule in rules] == ["ok", "ok"]


@pytest.mark.parametrize("watches_all", [True, False])
def test_transferred_instance_is_watched_no_longer(cast, create_rule, evaluate_at, watches_all):
    """Neither its name nor its values reach the channels of its earlier owner."""
    instance = cast.instance()
    rule = create_rule(resource_id=None if watches_all else instance.id)
    evaluate_at(0, 95, instance)
    assert rule.status == "firing"
    ownership.assign(instance, cast.outsider)
    session.commit()
    kinds = list_kinds()
    evaluate_at(1, 1, instance)
    evaluate_at(2, 95, instance)
    assert (list_kinds(), alert_rules.map_resource_names([rule])) == (kinds, {})
    assert session.scalars(alert_rules.select_states(rule)).all() == []


def test_changed_condition_resets_the_status(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rule = create_rule()
    evaluate_at(0, 95, instance)
    assert alert_rules.update(rule, cast.owner, name="other").status == "firing"
    assert alert_rules.update(rule, cast.owner, threshold=99).status == "ok"


def test_memory_is_compared_in_percent(cast, create_rule, evaluate_at):
    instance = cast.instance()
    high, low = (create_rule(metric="mem_pct", threshold=threshold) for threshold in (49, 51))
    evaluate_at(0, 1, instance, memory_used=instance.ram / 2)
    assert (high.status, low.status) == ("firing", "ok")


def test_evaluation_takes_a_constant_number_of_queries(cast, create_rule, create_channel, evaluate_at, queries):
    instance, channel = cast.instance(), create_channel()
    session.expire_all()
    create_rule(channel_ids=[channel.id])
    queries.clear()
    evaluate_at(0, 95, instance)
    few = len(queries)
    for number in range(8):
        create_rule(channel_ids=[channel.id], name=f"rule {number}")
    queries.clear()
    evaluate_at(1, 95, instance)
    assert len(queries) <= few
    assert session.scalar(select(func.count(AlertRule.id)).where(AlertRule.status == "firing")) == 9


def test_batch_is_repeated_when_a_row_was_deleted(cast, create_rule, evaluate_at, monkeypatch):
    instance, rule = cast.instance(), create_rule()
    evaluate = alert_evaluation.evaluate_batch
    failures = [StaleDataError()]

    def evaluate_batch(*args):
        if failures:
            raise failures.pop()
        return evaluate(*args)

    monkeypatch.setattr(alert_evaluation, "evaluate_batch", evaluate_batch)
    evaluate_at(0, 95, instance)
    assert (rule.status, failures) == ("firing", [])


def add_guest_report(instance, used, at=None):
    filesystems = [
        {"mountpoint": "/", "kind": "ext4", "size": 100, "used": used},
        {"mountpoint": "/data", "kind": "ext4", "size": 300, "used": 3 * used},
    ]
    session.merge(GuestInfo(instance_id=instance.id, at=at or clock.now(), filesystems=filesystems))
    session.commit()


def test_disk_is_compared_with_the_report_of_the_guest(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rule = create_rule(metric="disk_pct")
    add_guest_report(instance, used=91)
    evaluate_at(0, 1, instance)
    assert (rule.status, rule.no_data) == ("firing", False)
    add_guest_report(instance, used=50)
    evaluate_at(1, 1, instance)
    assert (rule.status, rule.no_data) == ("ok", False)


@pytest.mark.parametrize("case", ["never reported", "old report", "not measured"])
def test_disk_without_a_current_report_is_no_data(cast, create_rule, evaluate_at, case):
    instance = cast.instance()
    rule = create_rule(metric="disk_pct")
    if case != "never reported":
        add_guest_report(instance, used=91, at=clock.now() - timedelta(minutes=16 if case == "old report" else 0))
    evaluate_at(0, None if case == "not measured" else 1, instance)
    assert (rule.status, rule.no_data) == ("ok", True)


def test_rules_of_a_suspended_account_are_not_evaluated_and_restart_afterwards(
    cast, create_rule, create_channel, evaluate_at
):
    instance, channel = cast.instance(), create_channel()
    rule = create_rule(duration=120, channel_ids=[channel.id])
    firing = create_rule(name="firing", channel_ids=[channel.id])
    evaluate_at(0, 95, instance)
    assert (rule.status, firing.status) == ("ok", "firing")
    accounts.suspend(cast.owner)
    session.commit()
    session.expire_all()
    assert (firing.status, session.scalars(select(AlertNotification.status)).all()) == ("ok", ["failed"])
    evaluate_at(5, 95, instance)
    assert firing.status == "ok"
    accounts.unsuspend(cast.owner)
    session.commit()
    evaluate_at(6, 95, instance)
    assert (rule.status, firing.status) == ("ok", "firing")
    evaluate_at(8, 95, instance)
    assert rule.status == "firing"


def test_beginning_and_end_are_in_the_activity_log(cast, create_rule, evaluate_at):
    instance = cast.instance()
    rule = create_rule()
    for minute, value in enumerate((95, 96, 20)):
        evaluate_at(minute, value, instance)
    rows = session.scalars(events.listing(cast.owner, resource_id=instance.id)).all()
    recorded = [(row.kind, row.data["rule"], row.data["alert_rule_id"]) for row in rows if row.resource_type == "alert"]
    assert recorded == [("alert.resolved", "CPU", rule.id), ("alert.firing", "CPU", rule.id)]
    assert all(row.fanned_out_at and row.snapshot is None for row in rows if row.resource_type == "alert")


def test_events_of_the_api_have_no_alert_events(api_as, cast, create_rule, evaluate_at):
    """A token with the scope for instances does not learn of alert rules."""
    instance = cast.instance()
    create_rule()
    evaluate_at(0, 95, instance)
    rows = api_as("owner", "GET", f"/api/instance/{instance.id}/events").json["data"]
    assert not [row for row in rows if row["kind"].startswith("alert")]


def test_alert_events_in_the_activity_log_need_the_permission_to_see_rules(cast, create_rule, evaluate_at):
    instance = cast.instance()
    create_rule()
    evaluate_at(0, 95, instance)
    for permissions, count in ((["instances.view"], 0), (["instances.view", "monitoring.view"], 1)):
        member = Access(id=cast.owner.id, person_id="p", email="m@example.com", permissions=frozenset(permissions))
        rows = session.scalars(events.listing(member, resource_id=instance.id)).all()
        assert sum(row.resource_type == "alert" for row in rows) == count
