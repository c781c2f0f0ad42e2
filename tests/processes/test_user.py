"""`panel user`: what an operator does for somebody who cannot get in."""

import sqlite3

import pytest

from tests.processes.conftest import find_free_port

pytestmark = pytest.mark.processes
EMAIL = ("--email", "customer@example.com")
CODE = "insert into recovery_codes (id, account_id, secret_hash, created_at, updated_at) select 'x', id, 'y', ?1, ?1"
FACTORS = "select two_factor_at, totp_step from accounts where email = 'customer@example.com'"


@pytest.fixture
def installation_settings():
    return {"PANEL_MAIL_URL": f"smtp://127.0.0.1:{find_free_port()}"}


@pytest.fixture
def query_database(installation):
    """Asks the installation's database."""

    def ask(question, *values):
        with sqlite3.connect(installation.data_dir / "panel.db") as database:
            return database.execute(question, values).fetchone()

    return ask


def test_a_lost_password_and_lost_factors(installation, query_database):
    query_database("update accounts set two_factor_at = '2026-01-01 00:00:00', totp_step = 5")
    query_database(f"{CODE} from accounts where email = 'customer@example.com'", "2026-01-01 00:00:00")
    before = query_database("select password_hash from accounts where email = 'customer@example.com'")
    installation.run_panel("user", "password", *EMAIL, "--password", "another long password")
    assert query_database("select password_hash from accounts where email = 'customer@example.com'") != before
    assert query_database(FACTORS) == ("2026-01-01 00:00:00", 5)
    installation.run_panel("user", "reset-factors", *EMAIL)
    assert query_database(FACTORS) == (None, None)
    assert query_database("select count(*) from recovery_codes") == (0,)
    assert query_database("select count(*) from mails") == (2,)


def test_what_is_done_there_stands_in_the_audit_log(installation, query_database):
    installation.run_panel("user", "create", "--email", "new@example.com", "--password", "another long password")
    installation.run_panel("user", "reset-factors", *EMAIL)
    token = ("--ip", "127.0.0.1", "--name", "billing", "--description", "")
    installation.run_panel("token", "billing", *token)
    installation.run_panel("token", "list")
    found = query_database(
        "select group_concat(action || ' ' || object_type || ' ' || object_name, ', ') from"
        " (select * from audit where person = 'command line' and person_kind = 'command_line' order by id)"
        " where action != 'panel.token.user'"  # the customer's, made with the installation
    )
    assert found == (
        "panel.user.create account new@example.com, panel.user.reset_factors account customer@example.com,"
        " panel.token.billing token billing",
    )


def test_an_unknown_email_address_is_reported(installation):
    said = installation.run_panel("user", "reset-factors", "--email", "nobody@example.com", status=1)
    assert "No account has the email address" in said
