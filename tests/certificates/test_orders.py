"""Certificates that are ordered: from a real authority, which looks at a real panel."""

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
from panel.core.db import new_id, session
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
    with acme_server.run_pebble(tmp_path_factory.mktemp("pebble")) as made:
        yield made


class Site:
    """An installation whose web server the authority can ask, and workers who work when they are told."""

    def __init__(self, app, pebble, bells):
        self.app, self.pebble, self.bells = app, pebble, bells

    def call(self, method, path, body=None, who="owner"):
        answer = self.app.test_client().open(path, method=method, json=body, headers=self.app.cast.headers(who))
        session.rollback()
        session.expire_all()
        return answer

    def order(self, *domains, **more):
        body = {"type": "letsencrypt", "domains": list(domains), **more}
        answer = self.call("POST", "/api/certificates", body)
        assert answer.status_code == 200, answer.json
        return answer.json["certificate"]["id"]

    def renew(self, certificate_id):
        return self.call("POST", f"/api/certificate/{certificate_id}/renew")

    def show(self, certificate_id):
        return self.call("GET", f"/api/certificate/{certificate_id}").json["certificate"]

    def row(self, certificate_id):
        return session.get(Certificate, certificate_id, populate_existing=True)

    def work(self):
        while self.bells:
            function, args = self.bells.pop(0)
            assert function == "worker.engine.runner.run"
            for task_id in args:
                runner.run(task_id, new_id())
        session.rollback()

    def ask(self, path, host="shop.example.com"):
        connection = HTTPConnection(acme_server.PANEL_ADDRESS, self.pebble.port, timeout=60)
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer, answer.read().decode()


@pytest.fixture
def site(tmp_path, pebble, change_config, monkeypatch):
    bells = []
    monkeypatch.setattr(certificates, "ACME_POLL_INTERVAL_SECONDS", 0.05)
    ring = lambda function, *args: bells.append((function, args))  # noqa: E731
    with isolated_installation(tmp_path, create=create_app, on_call=ring) as app:
        change_config(webhook_ca=pebble.pem)
        server = make_server(acme_server.PANEL_ADDRESS, pebble.port, app, threaded=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            with app.app_context():
                settings.update({"acme_directory_url": pebble.directory, "acme_contact": "ops@example.com"})
                session.commit()
                bells.clear()
                yield Site(app, pebble, bells)
        finally:
            server.shutdown()
            server.server_close()
            settings.invalidate()


def is_chain_valid(row):
    """Whether the certificate is for its domains, and signed by the chain below it."""
    leaf = x509.load_pem_x509_certificate(row.certificate.encode())
    above = x509.load_pem_x509_certificates(row.chain.encode())
    leaf.verify_directly_issued_by(above[0])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return sorted(names.get_values_for_type(x509.DNSName)) == sorted(row.domains)


def test_a_certificate_is_ordered_and_issued(site):
    """LBA-06, LBA-07"""
    domains = ["shop.example.com", "www.example.com", "a.b.example.org"]
    made = site.order(*domains, name="Shop")
    shown = site.show(made)
    assert (shown["type"], shown["status"], shown["name"]) == ("letsencrypt", "pending", "Shop")
    assert (shown["ordering"], shown["domains"], shown["certificate"], shown["days_left"]) == (
        True,
        domains,
        None,
        None,
    )
    assert site.call("GET", f"/api/task/{shown['task_id']}").json["task"]["status"] == "queued"
    site.work()
    shown, row = site.show(made), site.row(made)
    assert (shown["status"], shown["ordering"], shown["error"], shown["days_left"]) == ("active", False, None, 89)
    assert sorted(shown["domains"]) == sorted(domains)
    assert shown["key_type"] == "EC P-256"
    assert is_chain_valid(row)
    assert row.private_key.startswith("-----BEGIN PRIVATE KEY-----")
    assert "PRIVATE KEY" not in str(shown)
    assert row.next_attempt_at == orders.calculate_renewal_time(row)
    assert timedelta(days=59) < row.next_attempt_at - clock.now() < timedelta(days=61)
    ended = site.call("GET", f"/api/task/{shown['task_id']}").json["task"]
    assert (ended["status"], ended["progress"]) == ("completed", 100)
    assert (row.order, row.order_key, session.scalar(select(AcmeChallenge.id))) == (None, None, None)


def test_the_panel_has_one_account_at_the_authority_and_its_key_is_encrypted(site):
    for name in ("one.example.com", "two.example.com"):
        site.order(name)
        site.work()
    account = session.scalars(select(AcmeAccount)).one()
    assert account.directory_url == site.pebble.directory
    assert account.uri.startswith("https://127.0.0.1")
    kept = dict(session.execute(text("select * from acme_accounts")).mappings().one())
    assert "PRIVATE KEY" not in str(kept)
    assert account.key.startswith("-----BEGIN PRIVATE KEY-----")


def test_an_acme_account_that_was_lost_is_registered_again(site):
    site.order("one.example.com")
    site.work()
    account = session.scalars(select(AcmeAccount)).one()
    account.uri = account.uri + "0"
    session.commit()
    made = site.order("two.example.com")
    site.work()
    assert site.show(made)["status"] == "failed"
    assert session.scalars(select(AcmeAccount.uri)).one() is None
    site.renew(made)
    site.work()
    assert site.show(made)["status"] == "active"


def test_a_domain_that_leads_elsewhere_fails_in_the_authority_s_words_and_is_tried_again(site):
    """LBA-07"""
    site.pebble.set_address("elsewhere.example.com", acme_server.FOREIGN_ADDRESS)
    with acme_server.web_server(site.pebble.port, acme_server.answer_with("something else")):
        made = site.order("shop.example.com", "elsewhere.example.com")
        site.work()
    shown = site.show(made)
    assert (shown["status"], shown["ordering"], shown["renews_at"]) == ("failed", False, None)
    assert "elsewhere.example.com" in shown["error"]
    assert "did not match" in shown["error"]
    assert clock.now() - site.row(made).error_at < timedelta(minutes=5)
    task_row = site.call("GET", f"/api/task/{shown['task_id']}").json["task"]
    assert (task_row["status"], task_row["error"]) == ("failed", shown["error"])
    assert session.scalar(select(AcmeChallenge.id)) is None
    site.pebble.set_address("elsewhere.example.com", acme_server.PANEL_ADDRESS)
    assert site.renew(made).json["certificate"]["status"] == "pending"
    assert site.show(made)["error"] is None
    site.work()
    assert site.show(made)["status"] == "active"


def test_a_web_server_that_sends_the_authority_on_to_the_panel(site):
    site.pebble.set_address("other.example.com", acme_server.FOREIGN_ADDRESS)
    panel = f"http://panel.example.net:{site.pebble.port}"
    with acme_server.web_server(site.pebble.port, acme_server.redirect_to(panel)):
        made = site.order("other.example.com")
        site.work()
    assert site.show(made)["status"] == "active"


def test_a_renewal_takes_the_place_of_the_old_one_when_it_is_there(site, monkeypatch):
    made = site.order("shop.example.com")
    site.work()
    before, key = site.show(made), site.row(made).private_key
    answer = site.renew(made)
    assert answer.json["certificate"]["ordering"] is True
    assert site.show(made)["certificate"] == before["certificate"]  # stays in use
    again = site.renew(made)
    assert (again.status_code, again.json["reason"]) == (409, "task_running")
    site.work()
    after = site.show(made)
    assert (after["status"], after["ordering"]) == ("active", False)
    assert after["fingerprint"] != before["fingerprint"]
    assert site.row(made).private_key != key
    assert is_chain_valid(site.row(made))


def test_a_renewal_that_fails_keeps_the_old_one_and_comes_back_later(site):
    made = site.order("moved.example.com")
    site.work()
    before = site.show(made)
    site.pebble.set_address("moved.example.com", acme_server.FOREIGN_ADDRESS)
    with acme_server.web_server(site.pebble.port, acme_server.answer_with("something else")):
        pauses = []
        for _ in range(3):
            site.renew(made)
            site.work()
            pauses.append(site.row(made).next_attempt_at - site.row(made).error_at)
    after = site.show(made)
    assert (after["status"], after["certificate"]) == ("active", before["certificate"])
    assert "did not match" in after["error"]
    assert [round(each.total_seconds() / 3600) for each in pauses] == [1, 2, 4]
    site.pebble.set_address("moved.example.com", acme_server.PANEL_ADDRESS)
    site.renew(made)
    site.work()
    row = site.row(made)
    assert (row.error, row.attempts, row.next_attempt_at) == (None, 0, orders.calculate_renewal_time(row))


def test_the_schedule_renews_30_days_before_the_end(site):
    """Once, however often it looks."""
    made = site.order("shop.example.com")
    site.work()
    before = site.show(made)["fingerprint"]
    certificates.renew_due()
    assert site.bells == []
    row = site.row(made)
    row.next_attempt_at = clock.now() - timedelta(seconds=1)  # its time has come
    session.commit()
    certificates.renew_due()
    certificates.renew_due()
    [found] = session.scalars(select(Task).where(Task.status == "queued")).all()
    assert (found.kind, found.actor) == ("certificate_order", "system")
    site.work()
    assert site.show(made)["fingerprint"] != before
    certificates.renew_due()
    assert site.bells == []


def test_short_lives_are_renewed_in_their_last_third():
    now = clock.now()
    for life, left in ((90, 30), (365, 30), (6, 2), (30, 10)):
        row = Certificate(not_before=now, not_after=now + timedelta(days=life))
        assert row.not_after - orders.calculate_renewal_time(row) == timedelta(days=left)


class WorkerKilled(BaseException):
    """As SIGKILL: nothing of the worker goes on after it."""


@contextmanager
def kill_worker_at(monkeypatch, owner, name, *, after):
    """The worker dies at that call, before or after it had its effect."""
    real = getattr(owner, name)

    def met(*args, **options):
        if after:
            real(*args, **options)
        raise WorkerKilled

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, met)
        yield


KILL_POINTS = {
    "nothing was asked": ("connect_client", False),
    "an account, no order": ("connect_client", True),
    "an order that nobody wrote down": ("create_order", True),
    "an order, no answer": ("get_http_challenge", False),
    "the authority checks": ("answer_challenge", True),
    "believed, not signed": ("wait_for_certificate", False),
    "signed, not written down": ("wait_for_certificate", True),
}


@pytest.mark.parametrize("step", KILL_POINTS)
def test_a_killed_worker_s_order_is_finished_by_another(site, monkeypatch, step):
    made = site.order("shop.example.com", "www.example.com")
    name, after = KILL_POINTS[step]
    with kill_worker_at(monkeypatch, certificates.acme, name, after=after), pytest.raises(WorkerKilled):
        site.work()
    session.rollback()
    key = site.row(made).order_key
    lost = session.scalars(select(Task)).one()
    lost.status, lost.worker = "queued", None  # as the sweep does when no heartbeat comes
    session.commit()
    site.bells.append(("worker.engine.runner.run", [lost.id]))
    site.work()
    assert site.show(made)["status"] == "active"
    assert is_chain_valid(site.row(made))
    if key:  # the order went on where it was
        assert site.row(made).private_key == key
    assert session.scalar(select(AcmeChallenge.id)) is None
    assert session.get(Task, lost.id, populate_existing=True).status == "completed"


def test_removing_it_ends_the_order(site, monkeypatch):
    made = site.order("shop.example.com")
    looked = []

    def remove(client, found):
        looked.append(found)
        assert site.call("DELETE", f"/api/certificate/{made}").status_code == 200

    monkeypatch.setattr(certificates.acme, "answer_challenge", remove)
    site.work()
    assert looked
    assert session.scalars(select(Task.status)).one() == "cancelled"
    assert [session.scalar(select(model.id)) for model in (Certificate, AcmeChallenge)] == [None, None]


def test_removing_it_before_a_worker_came(site):
    made = site.order("shop.example.com")
    assert site.call("DELETE", f"/api/certificate/{made}").status_code == 200
    site.work()
    assert session.scalars(select(Task.status)).one() == "cancelled"


def test_only_tokens_of_open_orders_are_answered_whatever_the_host(site):
    made = site.order("shop.example.com")
    place = "/.well-known/acme-challenge/"
    row = site.row(made)
    orders.add_challenge(row, "token-1", "token-1.proof")
    session.commit()
    for host in ("shop.example.com", "anything.example.net", "127.0.0.1"):
        answer, said = site.ask(place + "token-1", host)
        assert (answer.status, said) == (200, "token-1.proof")
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["Set-Cookie"] is None
        assert answer.headers["Cache-Control"] == "no-store"
    for wrong in ("token-2", "token-1x", "%00", "..%2f", "x" * 500):
        answer, said = site.ask(place + wrong)
        assert (answer.status, "proof" in said) == (404, False)
    orders.finish_order(row)
    session.commit()
    assert site.ask(place + "token-1")[0].status == 404


@pytest.mark.parametrize(
    ("directory", "words"),
    [("https://127.0.0.1:1/dir", "cannot be reached"), ("{names}/dir", "cannot be reached")],
)
def test_an_authority_that_cannot_be_asked(site, directory, words):
    settings.update({"acme_directory_url": directory.format(names=site.pebble.names.replace("http:", "https:"))})
    session.commit()
    made = site.order("shop.example.com")
    site.work()
    shown = site.show(made)
    assert (shown["status"], words in shown["error"]) == ("failed", True)


def test_an_authority_with_an_unknown_certificate_is_not_talked_to(site, change_config):
    change_config(webhook_ca="")
    made = site.order("shop.example.com")
    site.work()
    assert "SSLError" in site.show(made)["error"]


def test_invalid_acme_directory_fails_order(site):
    settings.update({"acme_directory_url": site.pebble.directory.replace("/dir", "/root")})
    session.commit()
    made = site.order("shop.example.com")
    site.work()
    assert site.show(made)["status"] == "failed"
