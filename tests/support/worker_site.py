"""An installation of a test whose workers, scheduler and Redis are processes that the test starts and kills."""

from contextlib import contextmanager

from tests.support import isolated_app
from tests.support.panel_commands import start_script
from tests.support.redis_server import RedisServer


class WorkerSite:
    """`environment` are settings of the processes. A subclass has the scripts that they run."""

    def __init__(self, app, directory, **environment):
        self.app, self.directory = app, directory
        self.config = app.extensions["config"]
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "PANEL_DATA_DIR": str(self.config.data_dir),
            "PANEL_DATABASE_URL": self.config.database_url,
            "PANEL_REDIS_URL": self.config.redis_url,
            "PANEL_SECRET_KEY": self.config.secret_key,
            **environment,
        }
        self.processes = {}

    def start_redis(self):
        self.processes["redis"] = RedisServer(self.directory)

    def start_script(self, name, source, *arguments):
        """Run Python code as a process. Its output goes to a log file with its name."""
        self.processes[name] = start_script(source, arguments, self.environment, self.directory / f"{name}.log")
        return self.processes[name]

    def read_log(self, name):
        return (self.directory / f"{name}.log").read_text()

    def kill_process(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()


@contextmanager
def run_site(directory, site_class, *arguments):
    """Start Redis, and end all processes with the block."""
    with isolated_app.isolated_installation(
        directory, on_call=isolated_app.PRODUCTION_JOBS_CALL, redis_url=f"unix://{directory}/redis.sock"
    ) as app:
        site = site_class(app, directory, *arguments)
        try:
            site.start_redis()
            with app.app_context():
                yield site
        finally:
            for name in list(site.processes):
                site.kill_process(name)
