"""Concurrent provisioning: a billing system that repeats a request gets the same user."""

import threading

from panel.core.db import session
from panel.models import Account
from panel.services import billing_users
from tests.support.isolated_app import isolated_installation

THREAD_COUNT = 6


def test_concurrent_provisioning_creates_one_user(tmp_path):
    """BIL-03"""
    ready, account_ids, failures = threading.Barrier(THREAD_COUNT), [], []
    with isolated_installation(tmp_path) as app:

        def provision():
            ready.wait()
            with app.app_context():
                try:
                    account = billing_users.provision(
                        external_id="c-1", email="new@example.com", password="a long password"
                    )
                    session.commit()
                    account_ids.append(account.id)
                except Exception as error:
                    failures.append(error)
                finally:
                    session.remove()

        threads = [threading.Thread(target=provision) for _ in range(THREAD_COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with app.app_context():
            assert failures == []
            assert len(account_ids) == THREAD_COUNT
            assert session.query(Account).filter_by(external_id="c-1").one().id in account_ids
            assert len(set(account_ids)) == 1
