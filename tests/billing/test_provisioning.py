"""Provisioning under many hands: a billing system that retries, or runs twice, gets one user."""

import threading

from panel.core.db import session
from panel.models import Account
from panel.services import billing_users
from tests.support.isolated_app import isolated_installation

THREADS = 6


def test_many_requests_at_once_make_one_user(tmp_path):
    """BIL-03"""
    ready, made, failures = threading.Barrier(THREADS), [], []
    with isolated_installation(tmp_path) as app:

        def provision():
            ready.wait()
            with app.app_context():
                try:
                    account = billing_users.provision(
                        external_id="c-1", email="new@example.com", password="a long password"
                    )
                    session.commit()
                    made.append(account.id)
                except Exception as error:
                    failures.append(error)
                finally:
                    session.remove()

        hands = [threading.Thread(target=provision) for _ in range(THREADS)]
        for hand in hands:
            hand.start()
        for hand in hands:
            hand.join()
        with app.app_context():
            assert failures == []
            assert len(made) == THREADS
            assert session.query(Account).filter_by(external_id="c-1").one().id in made
            assert len(set(made)) == 1
