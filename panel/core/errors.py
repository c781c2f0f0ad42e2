"""What a service may refuse, once. Each surface translates these into its own dialect."""


class Problem(Exception):
    """A refusal that a person can act on.

    `message` is the sentence to show, `fields` maps field names to what is wrong with them, and `reason` is the
    machine-readable word clients branch on (specification 7.2). `extra` holds further top-level facts of the answer.
    A plain Problem without `status` is a 400 that nobody has `chosen`, which operators' programs are told (4.1).
    """

    status = 400

    def __init__(self, message, *, reason=None, status=None, extra=None, **fields):
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.chosen = status is not None or type(self) is not Problem
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


class TooMany(Problem):
    """`seconds` from now it may be tried again."""

    status = 429

    def __init__(self, message, *, seconds, **more):
        super().__init__(message, **more)
        self.seconds = seconds
