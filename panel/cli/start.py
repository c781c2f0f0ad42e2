"""The first steps of every process: load the settings, protect its files, and check the database."""

from panel.core.config import Config, ConfigError, load
from panel.core.data_files import protect


def load_config() -> Config:
    """Return the configuration and protect the data directory. Also sets the umask, so that only its user can read new
    files."""
    config = load()
    try:
        config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        protect(config.data_dir)
    except OSError as error:
        raise ConfigError(f"PANEL_DATA_DIR {config.data_dir} cannot be used: {error.strerror}.") from None
    return config


def ensure_database_fits(app):
    """Start the database probe and return the application. Raise ConfigError when version or secret key do not fit the
    database."""
    from panel.core.database_probe import get_probe
    from panel.core.startup_checks import check_installation

    is_checked = check_installation(app)
    get_probe(app).start(is_checked=is_checked)
    return app
