"""What workers need of an application. They must not import Flask."""

from contextlib import AbstractContextManager
from typing import Any, Protocol


class Application(Protocol):
    extensions: dict[str, Any]

    def app_context(self) -> AbstractContextManager[Any]: ...
