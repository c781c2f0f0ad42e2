"""What a service may refuse, once. Each surface translates these into its own dialect."""


class Problem(Exception):
    """A refusal that a person can act on.

    `message` is the sentence to show, `fields` maps field names to what is wrong with them, and `reason` is the
    machine-readable word clients branch on (specification 7.2). `extra` holds further top-level facts of the answer.
    """

    status = 400

    def __init__(self, message, *, reason=None, status=None, extra=None, **fields):
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.status = status or self.status
        self.fields = {name: [text] if isinstance(text, str) else list(text) for name, text in fields.items()}
        self.extra = extra or {}


class Unauthenticated(Problem):
    status = 401


class Forbidden(Problem):
    status = 403


class NotFound(Problem):
    """Also the answer for what exists but belongs to somebody else."""

    status = 404


class Conflict(Problem):
    status = 409


class Invalid(Problem):
    status = 422


class Unavailable(Problem):
    status = 503
