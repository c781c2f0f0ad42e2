"""What is reported, and by whom."""

from datetime import timedelta
from decimal import Decimal

from sqlalchemy import select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.languages import load_translations
from panel.core.messages import translate_with
from panel.models import BackupPolicy, Certificate, Interface, UsageMonth
from panel.services import access, backup_policies, credits, inbox, invitations, security_notifications, settings, usage
from panel.services.inbox import checks
from worker.engine import purge
from worker.tasks import inbox as tasks

SOURCE = security_notifications.Source("192.0.2.7", "Firefox/1 Linux")


def enqueue_start(instance):
    """Enqueue a task that fails: the machine does not exist."""
    jobs.enqueue(
        "instance_start", "instance", instance, lock="exclusive", actor="x", hypervisor_id=instance.hypervisor_id
    )
    session.commit()


def test_failed_task_is_reported_to_the_owner(cast, run_tasks, read_inbox):
    instance = cast.instance(display_name="web-1")
    enqueue_start(instance)
    run_tasks()
    [text] = read_inbox(kind="task_failed")
    assert text.template == "{task} of {name} failed: {error}"
    assert (text.parameters["task"], text.parameters["name"]) == ("Start", "web-1")
    assert len(read_inbox("viewer")) == 1
    assert read_inbox("outsider") == []


def test_error_in_report_does_not_change_the_task(cast, run_tasks, monkeypatch, read_inbox):
    monkeypatch.setattr("worker.engine.runner.report_task", lambda task: 1 / 0)
    instance = cast.instance()
    enqueue_start(instance)
    run_tasks()
    assert read_inbox() == []


def use_traffic(instance, percent):
    interface = session.scalar(
        select(Interface).where(Interface.instance_id == instance.id, Interface.kind == "public")
    )
    interface.period = usage.make_month_key(clock.now())
    interface.received = instance.bandwidth * 10**9 * percent // 100
    session.commit()
    tasks.report_traffic()
    session.expire_all()


def test_traffic_is_reported_at_80_and_100_percent_once(cast, read_inbox):
    instance = cast.instance(display_name="web-1")
    use_traffic(instance, 79)
    assert read_inbox() == []
    use_traffic(instance, 81)
    use_traffic(instance, 90)
    assert read_inbox() == ["web-1 has used 80 % of this month's traffic."]
    use_traffic(instance, 100)
    use_traffic(instance, 120)
    assert len(read_inbox()) == 2
    assert read_inbox()[1].startswith("web-1 has used up this month's traffic.")


def test_traffic_that_jumps_to_100_percent_is_one_message(cast, read_inbox):
    use_traffic(cast.instance(), 150)
    assert len(read_inbox()) == 1


def test_expiring_certificate_is_reported_at_each_level(cast, read_inbox, monkeypatch):
    end = clock.now() + timedelta(days=20)
    session.add(Certificate(account_id=cast.owner.id, name="shop", type="manual", not_after=end))
    session.commit()
    for days in (0, 10, 11, 18, 19, 21):
        later = end - timedelta(days=20 - days)
        monkeypatch.setattr(clock, "now", lambda now=later: now)
        checks.report_certificates()
    assert [text.template for text in read_inbox()] == [
        "The certificate {name} expires on {date}.",
        "The certificate {name} expires on {date}.",
        "The certificate {name} has expired.",
    ]


def test_low_balance_is_reported_once_after_each_credit(cast, read_inbox):
    settings.update({"billing_enabled": True})
    month = usage.make_month_key(clock.now())
    columns = {"resource_type": "instance", "resource_name": "x", "plan": "S", "billing_mode": "cloud_service"}
    row = UsageMonth(resource_id="r", month=month, account_id=cast.owner.id, last_hour=clock.now(), **columns)
    row.price, row.charge = Decimal(30), Decimal(30)
    session.add(row)
    checks.report_balances()
    assert read_inbox() == []  # never had credit
    credits.grant(cast.owner, amount=Decimal("0.01"), actor="x")
    checks.report_balances()
    checks.report_balances()
    assert [text.template for text in read_inbox()] == ["Your credit is low: {amount} left. Add credit soon."]
    credits.post_entry(cast.owner, "usage", Decimal(-5), actor="system", month=month)
    checks.report_balances()
    assert read_inbox()[1].startswith("Your credit is used up: the balance is -")
    credits.grant(cast.owner, amount=Decimal(1000), actor="x")
    checks.report_balances()
    assert len(read_inbox()) == 2


def test_security_changes_are_reported_with_one_mail(cast, read_inbox, sent_mails):
    security_notifications.send_new_device(cast.owner, SOURCE)
    session.commit()
    [text] = read_inbox(kind="security")
    assert text == "Somebody signed in with a browser that is new to your account. From 192.0.2.7, Firefox on Linux."
    assert "Firefox unter Linux" in translate_with(text, load_translations("de"))
    assert len(sent_mails("owner@example.com")) == 1
    assert read_inbox("viewer") == []


def test_invitation_and_acceptance_are_reported(cast, read_inbox, sent_mails):
    owner = access.get_for_account(cast.owner)
    role_id = cast.viewer.membership.role_id
    member = invitations.invite(owner, email="outsider@example.com", role_id=role_id)
    session.commit()
    assert read_inbox("outsider") == ["owner@example.com invites you to their team. The link is in your mail."]
    invitations.complete(member, cast.outsider)
    assert read_inbox("owner") == ["outsider@example.com joined your team."]


def test_old_messages_are_purged(report, read_inbox, monkeypatch):
    report()
    later = clock.now() + inbox.messages.MESSAGE_RETENTION + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    purge.purge_expired()
    assert read_inbox() == []
    assert report() == 0  # the cause is stored longer


def test_missing_backup_is_reported_once(api_as, cast, read_inbox):
    instance = cast.instance(display_name="web-1")
    instance.deployed, instance.power, instance.created_at = True, "on", clock.now() - timedelta(days=30)
    body = {"name": "nightly", "retention_count": 1}
    policy_id = api_as("owner", "POST", "/api/backup-policies", json=body).json["policy"]["id"]
    backup_policies.attach(session.get(BackupPolicy, policy_id), instance)
    session.commit()
    checks.report_missing_backups()
    checks.report_missing_backups()
    assert read_inbox(kind="backup") == ["web-1 has a backup policy but no backup."]


def test_recording_takes_a_constant_number_of_queries(cast, queries):
    instances = [cast.instance() for _ in range(4)]
    counts = []
    for number in (1, 4):
        reports = [
            inbox.Report("alert", f"{number}:{row.id}", cast.owner.id, "x", resource_id=row.id)
            for row in instances[:number]
        ]
        queries.clear()
        inbox.record(reports)
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 8
