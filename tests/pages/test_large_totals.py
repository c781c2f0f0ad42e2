import pytest
from sqlalchemy import select

from panel.core import context
from panel.core.db import session
from panel.models import SshKey
from panel.web import large_totals
from panel.web.paging import Page


@pytest.fixture
def keys(cast, monkeypatch):
    """Four keys of the owner and one of an outsider. Three rows are a large total."""
    monkeypatch.setattr(large_totals, "LARGE_TOTAL", 3)
    for number in range(4):
        add_key(cast.owner, number)
    add_key(cast.outsider, 0)
    yield cast
    context.current().large_totals.clear()


def add_key(account, number):
    session.add(SshKey(account_id=account.id, name=f"key {number}", public_key="x", fingerprint=str(number)))
    session.flush()


def load_total(account, number=1, per_page=2):
    query = select(SshKey).where(SshKey.account_id == account.id).order_by(SshKey.id)
    return Page(query, number, per_page).total


def test_large_total_is_counted_once(keys, queries):
    totals = []
    for _request in range(2):
        queries.clear()
        totals.append(load_total(keys.owner))
        assert len(queries) == 1
        totals.append("count(*)" in queries[0])
    assert totals == [4, True, 4, False]


def test_small_total_is_counted_at_each_request(keys):
    assert load_total(keys.outsider) == 1
    add_key(keys.outsider, 1)
    assert load_total(keys.outsider) == 2


def test_total_belongs_to_its_filters(keys):
    assert [load_total(account) for account in (keys.owner, keys.outsider)] == [4, 1]


def test_stored_total_ends(keys, monkeypatch):
    load_total(keys.owner)
    add_key(keys.owner, 4)
    assert load_total(keys.owner) == 4
    monkeypatch.setattr(large_totals, "time", type("Later", (), {"monotonic": lambda: 1e12}))
    assert load_total(keys.owner) == 5


def test_incomplete_page_gives_exact_total(keys):
    load_total(keys.owner)
    add_key(keys.owner, 4)
    assert load_total(keys.owner, number=3) == 5


def test_page_beyond_the_end_gives_exact_total(keys):
    load_total(keys.owner)
    add_key(keys.owner, 4)
    assert load_total(keys.owner, number=9) == 5


@pytest.mark.parametrize(("number", "names"), [(1, ["key 3", "key 2"]), (2, ["key 1", "key 0"]), (3, [])])
def test_page_found_by_ids_has_same_rows_and_total(keys, number, names):
    all_rows = select(SshKey).where(SshKey.account_id == keys.owner.id)
    query = all_rows.where(SshKey.name.contains("key")).order_by(SshKey.id.desc())
    for _request in range(2):  # counted, then stored
        page = Page(query, number, 2, all_rows=all_rows, is_searched=True)
        assert ([key.name for key in page], page.total) == (names, 4)
