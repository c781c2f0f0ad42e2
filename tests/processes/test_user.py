"""`panel user` for people who cannot sign in."""

import sqlite3

import pytest

from tests.support.ports import find_free_port

pytestmark = pytest.mark.processes
EMAIL_OPTIONS = ("--email", "customer@example.com")
INSERT_RECOVERY_CODE = (
    "insert into recovery_codes (id, account_id, secret_hash, created_at, updated_at) select 'x', id, 'y', ?1, ?1"
)
SELECT_FACTORS = "select two_factor_at, totp_step from accounts where email = 'customer@example.com'"


@pytest.fixture
def installation_settings():
    return {"PANEL_MAIL_URL": f"smtp://127.0.0.1:{find_free_port()}"}


@pytest.fixture
def query_database(installation):
    """Return a function that runs a statement on the installation's database and returns the first row."""

    def query(statement, *values):
        with sqlite3.connect(installation.data_dir / "panel.db") as database:
            return database.execute(statement, values).fetchone()

    return query


def test_user_command_resets_password_and_factors(installation, query_database):
    query_database("update accounts set two_factor_at = '2026-01-01 00:00:00', totp_step = 5")
    query_database(f"{INSERT_RECOVERY_CODE} from accounts where email = 'customer@example.com'", "2026-01-01 00:00:00")
    before = query_database("select password_hash from accounts where email = 'customer@example.com'")
    installation.run_panel("user", "password", *EMAIL_OPTIONS, "--password", "another long password")
    assert query_database("select password_hash from accounts where email = 'customer@example.com'") != before
    assert query_database(SELECT_FACTORS) == ("2026-01-01 00:00:00", 5)
    installation.run_panel("user", "reset-factors", *EMAIL_OPTIONS)
    assert query_database(SELECT_FACTORS) == (None, None)
    assert query_database("select count(*) from recovery_codes") == (0,)
    assert query_database("select count(*) from mails") == (2,)


def test_cli_commands_are_recorded_in_audit_log(installation, query_database):
    installation.run_panel("user", "create", "--email", "new@example.com", "--password", "another long password")
    installation.run_panel("user", "reset-factors", *EMAIL_OPTIONS)
    token_options = ("--ip", "127.0.0.1", "--name", "billing", "--description", "")
    installation.run_panel("token", "billing", *token_options)
    installation.run_panel("token", "list")
    entries = query_database(
        "select group_concat(action || ' ' || object_type || ' ' || object_name, ', ') from"
        " (select * from audit where person = 'command line' and person_kind = 'command_line' order by id)"
        " where action != 'panel.token.user'"  # the customer's token, created with the installation
    )
    assert entries == (
        "panel.user.create account new@example.com, panel.user.reset_factors account customer@example.com,"
        " panel.token.billing token billing",
    )


def test_unknown_email_address_is_reported(installation):
    output = installation.run_panel("user", "reset-factors", "--email", "nobody@example.com", status=1)
    assert "No account has the email address" in output
