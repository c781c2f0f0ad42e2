"""A second application with a fresh database of the same kind, the cast and real commits.

For tests of concurrent transactions and processes.
"""

import os
from contextlib import contextmanager

from panel.bootstrap import create_worker_app
from panel.core import context, jobs
from panel.core.config import Config
from panel.core.db import db, session
from tests.support import postgres
from tests.support.cast import create_cast
from tests.support.template_cache import create_template_cache

PRODUCTION_JOBS_CALL = jobs.enqueue_call
"""The product's function, which the test suite replaces."""


@contextmanager
def isolated_installation(directory, *, create=create_worker_app, on_call=lambda *_: None, **settings):
    """Yield an application that `create` builds, with its `cast`. `on_call` replaces jobs.enqueue_call."""
    (directory / "data").mkdir(exist_ok=True)
    original_call, original_context = jobs.enqueue_call, context.current()
    inherited = {name: getattr(original_context.config, name) for name in ("webhook_allowed_networks", "webhook_ca")}
    with create_database(directory) as address:
        config = Config(data_dir=directory / "data", database_url=address, secret_key="test", **(inherited | settings))
        app = create(config)
        app.jinja_env.bytecode_cache = create_template_cache()
        jobs.enqueue_call = on_call
        try:
            with app.app_context():
                db.create_all()
                app.cast = create_cast(config.data_dir)
            yield app
        finally:
            with app.app_context():
                session.remove()
                db.engine.dispose()
            jobs.enqueue_call = original_call
            context.set_current(original_context)


@contextmanager
def create_database(directory):
    """Yield the URL of an empty database: an SQLite file, or a new one on the test suite's PostgreSQL server."""
    if server_url := os.environ.get(postgres.URL_VARIABLE):
        with postgres.create_database(server_url) as url:
            yield url
    else:
        yield f"sqlite:///{directory / 'panel.db'}"
