"""Certificate orders with a real ACME server, which checks a real panel over HTTP."""

import threading
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPConnection

import pytest
from cryptography import x509
from sqlalchemy import select, text
from werkzeug.serving import make_server

from panel.app import create_app
from panel.core import clock
from panel.core.db import generate_id, session
from panel.models import AcmeAccount, AcmeChallenge, Certificate, Task
from panel.services import settings
from panel.services.certificates import orders
from tests.certificates import acme_server
from tests.support.isolated_app import isolated_installation
from worker.engine import runner
from worker.tasks import certificates

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def pebble(tmp_path_factory):
    with acme_server.run_pebble(tmp_path_factory.mktemp("pebble")) as server:
        yield server


class PanelSite:
    """An installation with a web server for HTTP challenges. Tasks run when the test calls `run_tasks`."""

    def __init__(self, app, pebble, queued_calls):
        self.app, self.pebble, self.queued_calls = app, pebble, queued_calls

    def call_api(self, method, path, body=None, caller="owner"):
        answer = self.app.test_client().open(path, method=method, json=body, headers=self.app.cast.headers(caller))
        session.rollback()
        session.expire_all()
        return answer

    def order(self, *domains, **fields):
        body = {"type": "letsencrypt", "domains": list(domains), **fields}
        answer = self.call_api("POST", "/api/certificates", body)
        assert answer.status_code == 200, answer.json
        return answer.json["certificate"]["id"]

    def renew(self, certificate_id):
        return self.call_api("POST", f"/api/certificate/{certificate_id}/renew")

    def show(self, certificate_id):
        return self.call_api("GET", f"/api/certificate/{certificate_id}").json["certificate"]

    def load_row(self, certificate_id):
        return session.get(Certificate, certificate_id, populate_existing=True)

    def run_tasks(self):
        while self.queued_calls:
            function, args = self.queued_calls.pop(0)
            assert function == "worker.engine.runner.run"
            for task_id in args:
                runner.run(task_id, generate_id())
        session.rollback()

    def get_from_web_server(self, path, host="shop.example.com"):
        connection = HTTPConnection(acme_server.PANEL_ADDRESS, self.pebble.port, timeout=60)
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer, answer.read().decode()


@pytest.fixture
def site(tmp_path, pebble, change_config, monkeypatch):
    queued_calls = []
    monkeypatch.setattr(certificates, "ACME_POLL_INTERVAL_SECONDS", 0.05)
    record_call = lambda function, *args: queued_calls.append((function, args))  # noqa: E731
    with isolated_installation(tmp_path, create=create_app, on_call=record_call) as app:
        change_config(webhook_ca=pebble.ca_pem)
        server = make_server(acme_server.PANEL_ADDRESS, pebble.port, app, threaded=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            with app.app_context():
                settings.update({"acme_directory_url": pebble.directory_url, "acme_contact": "ops@example.com"})
                session.commit()
                queued_calls.clear()
                yield PanelSite(app, pebble, queued_calls)
        finally:
            server.shutdown()
            server.server_close()
            settings.invalidate()


def is_chain_valid(row):
    """Return whether the certificate names its domains and is signed by its chain."""
    leaf = x509.load_pem_x509_certificate(row.certificate.encode())
    above = x509.load_pem_x509_certificates(row.chain.encode())
    leaf.verify_directly_issued_by(above[0])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return sorted(names.get_values_for_type(x509.DNSName)) == sorted(row.domains)


def test_ordered_certificate_is_issued(site):
    """LBA-06, LBA-07"""
    domains = ["shop.example.com", "www.example.com", "a.b.example.org"]
    certificate_id = site.order(*domains, name="Shop")
    shown = site.show(certificate_id)
    assert (shown["type"], shown["status"], shown["name"]) == ("letsencrypt", "pending", "Shop")
    assert (shown["ordering"], shown["domains"], shown["certificate"], shown["days_left"]) == (
        True,
        domains,
        None,
        None,
    )
    assert site.call_api("GET", f"/api/task/{shown['task_id']}").json["task"]["status"] == "queued"
    site.run_tasks()
    shown, row = site.show(certificate_id), site.load_row(certificate_id)
    assert (shown["status"], shown["ordering"], shown["error"], shown["days_left"]) == ("active", False, None, 89)
    assert sorted(shown["domains"]) == sorted(domains)
    assert shown["key_type"] == "EC P-256"
    assert is_chain_valid(row)
    assert row.private_key.startswith("-----BEGIN PRIVATE KEY-----")
    assert "PRIVATE KEY" not in str(shown)
    assert row.next_attempt_at == orders.calculate_renewal_time(row)
    assert timedelta(days=59) < row.next_attempt_at - clock.now() < timedelta(days=61)
    ended = site.call_api("GET", f"/api/task/{shown['task_id']}").json["task"]
    assert (ended["status"], ended["progress"]) == ("completed", 100)
    assert (row.order, row.order_key, session.scalar(select(AcmeChallenge.id))) == (None, None, None)


def test_acme_account_is_shared_and_its_key_encrypted(site):
    for name in ("one.example.com", "two.example.com"):
        site.order(name)
        site.run_tasks()
    account = session.scalars(select(AcmeAccount)).one()
    assert account.directory_url == site.pebble.directory_url
    assert account.uri.startswith("https://127.0.0.1")
    acme_account = dict(session.execute(text("select * from acme_accounts")).mappings().one())
    assert "PRIVATE KEY" not in str(acme_account)
    assert account.key.startswith("-----BEGIN PRIVATE KEY-----")


def test_lost_acme_account_is_registered_again(site):
    site.order("one.example.com")
    site.run_tasks()
    account = session.scalars(select(AcmeAccount)).one()
    account.uri = account.uri + "0"
    session.commit()
    certificate_id = site.order("two.example.com")
    site.run_tasks()
    assert site.show(certificate_id)["status"] == "failed"
    assert session.scalars(select(AcmeAccount.uri)).one() is None
    site.renew(certificate_id)
    site.run_tasks()
    assert site.show(certificate_id)["status"] == "active"


def test_order_for_foreign_domain_fails_and_can_be_retried(site):
    """LBA-07"""
    site.pebble.set_address("elsewhere.example.com", acme_server.FOREIGN_ADDRESS)
    with acme_server.run_web_server(site.pebble.port, acme_server.respond_with_text("something else")):
        certificate_id = site.order("shop.example.com", "elsewhere.example.com")
        site.run_tasks()
    shown = site.show(certificate_id)
    assert (shown["status"], shown["ordering"], shown["renews_at"]) == ("failed", False, None)
    assert "elsewhere.example.com" in shown["error"]
    assert "did not match" in shown["error"]
    assert clock.now() - site.load_row(certificate_id).error_at < timedelta(minutes=5)
    task_row = site.call_api("GET", f"/api/task/{shown['task_id']}").json["task"]
    assert (task_row["status"], task_row["error"]) == ("failed", shown["error"])
    assert session.scalar(select(AcmeChallenge.id)) is None
    site.pebble.set_address("elsewhere.example.com", acme_server.PANEL_ADDRESS)
    assert site.renew(certificate_id).json["certificate"]["status"] == "pending"
    assert site.show(certificate_id)["error"] is None
    site.run_tasks()
    assert site.show(certificate_id)["status"] == "active"


def test_challenge_redirect_to_panel_is_accepted(site):
    site.pebble.set_address("other.example.com", acme_server.FOREIGN_ADDRESS)
    panel = f"http://panel.example.net:{site.pebble.port}"
    with acme_server.run_web_server(site.pebble.port, acme_server.redirect_to(panel)):
        certificate_id = site.order("other.example.com")
        site.run_tasks()
    assert site.show(certificate_id)["status"] == "active"


def test_renewal_replaces_certificate_after_issuance(site, monkeypatch):
    certificate_id = site.order("shop.example.com")
    site.run_tasks()
    before, key = site.show(certificate_id), site.load_row(certificate_id).private_key
    answer = site.renew(certificate_id)
    assert answer.json["certificate"]["ordering"] is True
    assert site.show(certificate_id)["certificate"] == before["certificate"]  # stays in use
    again = site.renew(certificate_id)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    site.run_tasks()
    after = site.show(certificate_id)
    assert (after["status"], after["ordering"]) == ("active", False)
    assert after["fingerprint"] != before["fingerprint"]
    assert site.load_row(certificate_id).private_key != key
    assert is_chain_valid(site.load_row(certificate_id))


def test_failed_renewal_keeps_certificate_and_backs_off(site):
    certificate_id = site.order("moved.example.com")
    site.run_tasks()
    before = site.show(certificate_id)
    site.pebble.set_address("moved.example.com", acme_server.FOREIGN_ADDRESS)
    with acme_server.run_web_server(site.pebble.port, acme_server.respond_with_text("something else")):
        pauses = []
        for _ in range(3):
            site.renew(certificate_id)
            site.run_tasks()
            pauses.append(site.load_row(certificate_id).next_attempt_at - site.load_row(certificate_id).error_at)
    after = site.show(certificate_id)
    assert (after["status"], after["certificate"]) == ("active", before["certificate"])
    assert "did not match" in after["error"]
    assert [round(pause.total_seconds() / 3600) for pause in pauses] == [1, 2, 4]
    site.pebble.set_address("moved.example.com", acme_server.PANEL_ADDRESS)
    site.renew(certificate_id)
    site.run_tasks()
    row = site.load_row(certificate_id)
    assert (row.error, row.attempts, row.next_attempt_at) == (None, 0, orders.calculate_renewal_time(row))


def test_scheduled_renewal_starts_30_days_before_expiry(site):
    """Repeated runs enqueue one task."""
    certificate_id = site.order("shop.example.com")
    site.run_tasks()
    before = site.show(certificate_id)["fingerprint"]
    certificates.renew_due()
    assert site.queued_calls == []
    row = site.load_row(certificate_id)
    row.next_attempt_at = clock.now() - timedelta(seconds=1)
    session.commit()
    certificates.renew_due()
    certificates.renew_due()
    [task] = session.scalars(select(Task).where(Task.status == "queued")).all()
    assert (task.kind, task.actor) == ("certificate_order", "system")
    site.run_tasks()
    assert site.show(certificate_id)["fingerprint"] != before
    certificates.renew_due()
    assert site.queued_calls == []


def test_renewal_time_for_short_lifetimes_is_last_third():
    now = clock.now()
    for life, remaining_days in ((90, 30), (365, 30), (6, 2), (30, 10)):
        row = Certificate(not_before=now, not_after=now + timedelta(days=life))
        assert row.not_after - orders.calculate_renewal_time(row) == timedelta(days=remaining_days)


class WorkerKilled(BaseException):
    """Stands for SIGKILL: no code of the worker catches it."""


@contextmanager
def kill_worker_at(monkeypatch, owner, name, *, after):
    """Kill the worker at that call, before or after the call."""
    real = getattr(owner, name)

    def raise_killed(*args, **options):
        if after:
            real(*args, **options)
        raise WorkerKilled

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, raise_killed)
        yield


KILL_POINTS = {
    "before the ACME account": ("connect_client", False),
    "after the ACME account": ("connect_client", True),
    "order created, not stored": ("create_order", True),
    "before the challenge is read": ("get_http_challenge", False),
    "challenge answered": ("answer_challenge", True),
    "before the certificate is issued": ("wait_for_certificate", False),
    "issued, not stored": ("wait_for_certificate", True),
}


@pytest.mark.parametrize("step", KILL_POINTS)
def test_order_of_killed_worker_is_resumed(site, monkeypatch, step):
    certificate_id = site.order("shop.example.com", "www.example.com")
    name, after = KILL_POINTS[step]
    with kill_worker_at(monkeypatch, certificates.acme, name, after=after), pytest.raises(WorkerKilled):
        site.run_tasks()
    session.rollback()
    key = site.load_row(certificate_id).order_key
    lost = session.scalars(select(Task)).one()
    lost.status, lost.worker = "queued", None  # as the reaper does when heartbeats stop
    session.commit()
    site.queued_calls.append(("worker.engine.runner.run", [lost.id]))
    site.run_tasks()
    assert site.show(certificate_id)["status"] == "active"
    assert is_chain_valid(site.load_row(certificate_id))
    if key:  # the order was resumed
        assert site.load_row(certificate_id).private_key == key
    assert session.scalar(select(AcmeChallenge.id)) is None
    assert session.get(Task, lost.id, populate_existing=True).status == "completed"


def test_deletion_during_order_cancels_task(site, monkeypatch):
    certificate_id = site.order("shop.example.com")
    answered = []

    def remove(client, challenge):
        answered.append(challenge)
        assert site.call_api("DELETE", f"/api/certificate/{certificate_id}").status_code == 200

    monkeypatch.setattr(certificates.acme, "answer_challenge", remove)
    site.run_tasks()
    assert answered
    assert session.scalars(select(Task.status)).one() == "cancelled"
    assert [session.scalar(select(model.id)) for model in (Certificate, AcmeChallenge)] == [None, None]


def test_deletion_before_order_starts_cancels_task(site):
    certificate_id = site.order("shop.example.com")
    assert site.call_api("DELETE", f"/api/certificate/{certificate_id}").status_code == 200
    site.run_tasks()
    assert session.scalars(select(Task.status)).one() == "cancelled"


def test_challenge_route_serves_only_open_tokens_for_any_host(site):
    certificate_id = site.order("shop.example.com")
    place = "/.well-known/acme-challenge/"
    row = site.load_row(certificate_id)
    orders.add_challenge(row, "token-1", "token-1.proof")
    session.commit()
    for host in ("shop.example.com", "anything.example.net", "127.0.0.1"):
        answer, body = site.get_from_web_server(place + "token-1", host)
        assert (answer.status, body) == (200, "token-1.proof")
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["Set-Cookie"] is None
        assert answer.headers["Cache-Control"] == "no-store"
    for wrong in ("token-2", "token-1x", "%00", "..%2f", "x" * 500):
        answer, body = site.get_from_web_server(place + wrong)
        assert (answer.status, "proof" in body) == (404, False)
    orders.finish_order(row)
    session.commit()
    assert site.get_from_web_server(place + "token-1")[0].status == 404


@pytest.mark.parametrize(
    ("directory", "expected_text"),
    [("https://127.0.0.1:1/dir", "cannot be reached"), ("{names}/dir", "cannot be reached")],
)
def test_unreachable_acme_server_fails_order(site, directory, expected_text):
    settings.update(
        {"acme_directory_url": directory.format(names=site.pebble.dns_management_url.replace("http:", "https:"))}
    )
    session.commit()
    certificate_id = site.order("shop.example.com")
    site.run_tasks()
    shown = site.show(certificate_id)
    assert (shown["status"], expected_text in shown["error"]) == ("failed", True)


def test_acme_server_with_untrusted_certificate_fails_order(site, change_config):
    change_config(webhook_ca="")
    certificate_id = site.order("shop.example.com")
    site.run_tasks()
    assert "SSLError" in site.show(certificate_id)["error"]


def test_invalid_acme_directory_fails_order(site):
    settings.update({"acme_directory_url": site.pebble.directory_url.replace("/dir", "/root")})
    session.commit()
    certificate_id = site.order("shop.example.com")
    site.run_tasks()
    assert site.show(certificate_id)["status"] == "failed"
