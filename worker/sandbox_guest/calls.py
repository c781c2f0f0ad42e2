"""What all calls of the daemon's services need: the message, the acting user and the identity of the sandbox."""

from dataclasses import dataclass
from functools import cached_property

from .connect_protocol import Message, get_text
from .http_messages import Request
from .identity import Identity
from .users import User, get_user, parse_basic_user


@dataclass
class Call:
    """One call of a client."""

    request: Request
    identity: Identity
    message: Message

    @cached_property
    def user(self) -> User:
        """The user that the client names, otherwise the default one."""
        name = parse_basic_user(self.request.headers.get("authorization", ""))
        return get_user(name or self.identity.default_user)

    def get_path(self, name: str) -> str:
        """Return the absolute path in a field of the message."""
        return self.user.resolve_path(get_text(self.message, name), empty=self.identity.default_workdir)
