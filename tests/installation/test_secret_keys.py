"""A wrong or missing secret key is detected, and no new key is created beside a filled database (F3)."""

import sqlite3
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from panel.bootstrap import create_worker_app, init_migrate
from panel.cli import doctor, main
from panel.core import schema_revision, startup_checks
from panel.core.config import Config, ConfigError, load
from panel.core.db import db, session
from panel.models import Account, InstallationValue


@contextmanager
def open_database(tmp_path, keys):
    """The database of a data directory, as a process with these keys opens it."""
    app = create_worker_app(Config(data_dir=tmp_path, secret_key=keys))
    init_migrate(app)
    with app.app_context():
        yield app
        session.rollback()
        db.engine.dispose()


@pytest.fixture
def filled_database(tmp_path):
    import flask_migrate

    with open_database(tmp_path, "old" * 20) as app:
        flask_migrate.upgrade()
        startup_checks.record_installation(app)
    return tmp_path


def test_wrong_secret_key_is_refused(filled_database):
    with open_database(filled_database, "old" * 20) as app:
        assert startup_checks.check_installation(app)
    with open_database(filled_database, "new" * 20) as app, pytest.raises(ConfigError, match="secret key is wrong"):
        startup_checks.check_installation(app)


def test_key_rotation_requires_every_used_key(filled_database):
    for keys in ("b" * 40 + "," + "old" * 20, "c" * 40 + "," + "b" * 40 + "," + "old" * 20):
        with open_database(filled_database, keys) as app:
            assert startup_checks.check_installation(app)
    for keys in ("c" * 40 + "," + "b" * 40, "c" * 40 + "," + "old" * 20):
        with open_database(filled_database, keys) as app, pytest.raises(ConfigError, match="wrong or incomplete"):
            startup_checks.check_installation(app)


def test_key_of_earlier_version_is_checked_by_encrypted_values(filled_database):
    with open_database(filled_database, "old" * 20):
        session.add(Account(email="ada@example.com", password_hash="x", totp_secret="a secret"))
        session.execute(InstallationValue.__table__.delete())
        session.commit()
    with open_database(filled_database, "new" * 20) as app, pytest.raises(ConfigError, match="secret key is wrong"):
        startup_checks.check_installation(app)
    with open_database(filled_database, "old" * 20) as app:
        assert startup_checks.check_installation(app)


def test_no_key_is_created_for_filled_database(filled_database):
    with pytest.raises(ConfigError, match="No new key was made"):
        load({"PANEL_DATA_DIR": str(filled_database)})
    assert not (filled_database / "secret_key").exists()


def test_new_installation_gets_random_key(tmp_path):
    environ = {"PANEL_DATA_DIR": str(tmp_path / "new")}
    secret_key = load(environ).secret_key
    assert len(secret_key) >= 48
    assert load(environ).secret_key == secret_key
    assert (tmp_path / "new" / "secret_key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "new" / "secret_key").write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        load(environ)


def test_no_key_is_created_while_database_is_unreachable(tmp_path):
    environ = {"PANEL_DATA_DIR": str(tmp_path), "PANEL_DATABASE_URL": f"postgresql://x@/x?host={tmp_path}"}
    with pytest.raises(ConfigError, match="does not say whether it is new"):
        load(environ)


def test_unknown_database_revision_is_explained(filled_database):
    """F2: no traceback and no bare revision."""
    with sqlite3.connect(filled_database / "panel.db") as database:
        database.execute("update alembic_version set version_num = '382ff56878d3'")
    with open_database(filled_database, "old" * 20) as app, pytest.raises(ConfigError, match=r"382ff56878d3.*fresh"):
        startup_checks.check_installation(app)
    with open_database(filled_database, "old" * 20) as app, pytest.raises(doctor.CheckFailed, match="no upgrade"):
        doctor.check_database(app.extensions["config"])
    environ = {"PANEL_DATA_DIR": str(filled_database), "PANEL_SECRET_KEY": "old" * 20}
    result = CliRunner(env=environ).invoke(main, ["db", "upgrade"])  # `panel up` runs this command
    assert result.exit_code == 1
    assert "382ff56878d3" in result.output
    assert "start a fresh installation" in result.output


def test_outdated_or_empty_database_is_explained(filled_database, tmp_path, monkeypatch):
    later = schema_revision.list_known_revisions()[0] | {"next"}, {"next"}
    monkeypatch.setattr(schema_revision, "list_known_revisions", lambda: later)
    with open_database(filled_database, "old" * 20) as app, pytest.raises(ConfigError, match="panel db upgrade"):
        startup_checks.check_installation(app)
    (tmp_path / "empty").mkdir()
    with open_database(tmp_path / "empty", "old" * 20) as app, pytest.raises(ConfigError, match="no tables"):
        startup_checks.check_installation(app)


def test_known_revisions_equal_those_of_alembic():
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(schema_revision.ROOT / "panel" / "migrations"))
    revisions, heads = schema_revision.list_known_revisions()
    assert revisions == {script.revision for script in scripts.walk_revisions()}
    assert heads == set(scripts.get_heads())
