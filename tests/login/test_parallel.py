"""Parallel passkey registrations do not exceed the limit of an account."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from panel.app import create_app
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, Passkey
from panel.services import passkeys
from panel.services.security_notifications import Source
from tests.login.authenticator import ORIGIN, Authenticator
from tests.support.isolated_app import isolated_installation

REGISTRATION_COUNT = 4


def test_parallel_passkey_registrations_respect_account_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(passkeys, "MAX_PASSKEYS", 1)
    site, start = passkeys.Site.from_url(ORIGIN), Barrier(REGISTRATION_COUNT)
    with isolated_installation(tmp_path, create=create_app) as app:
        with app.app_context():
            account_id = app.cast.owner.id

        def register(number):
            with app.app_context():
                account = session.get(Account, account_id)
                options, challenge = passkeys.create_registration(account, site)
                credential = Authenticator().create(options)
                session.commit()
                start.wait()
                try:
                    passkeys.register(
                        account,
                        name=str(number),
                        credential=credential,
                        challenge=challenge,
                        site=site,
                        source=Source("127.0.0.1"),
                    )
                    session.commit()
                except Invalid as error:
                    session.rollback()
                    return error.message
                return None

        with ThreadPoolExecutor(REGISTRATION_COUNT) as customers:
            errors = list(customers.map(register, range(REGISTRATION_COUNT)))
        with app.app_context():
            assert session.query(Passkey).count() == 1
        assert sorted(map(bool, errors)) == [False] + [True] * (REGISTRATION_COUNT - 1)
