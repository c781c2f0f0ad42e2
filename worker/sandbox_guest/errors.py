"""The errors of requests."""

import errno

STATUS_BY_CODE = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "already_exists": 409,
    "resource_exhausted": 429,
    "canceled": 499,
    "internal": 500,
    "unknown": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
"""The HTTP status of each error code of the Connect protocol."""

CODE_BY_ERRNO = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "already_exists",
    errno.ENOTDIR: "invalid_argument",
    errno.EISDIR: "invalid_argument",
    errno.EINVAL: "invalid_argument",
    errno.ENAMETOOLONG: "invalid_argument",
    errno.ELOOP: "invalid_argument",
    errno.ENXIO: "invalid_argument",
    errno.ENOTEMPTY: "failed_precondition",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOSPC: "resource_exhausted",
    errno.EDQUOT: "resource_exhausted",
    errno.EMFILE: "resource_exhausted",
}


class HttpError(Exception):
    """An error that is answered with `{"code": <status>, "message": …}`."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


class RpcError(Exception):
    """An error of a call, with a code of the Connect protocol."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return STATUS_BY_CODE[self.code]


def convert_os_error(error: OSError, path: str) -> RpcError:
    """Return the error of a call for an error of the operating system."""
    code = CODE_BY_ERRNO.get(error.errno or 0, "internal")
    reason = "does not exist" if code == "not_found" else f"cannot be used: {error.strerror or error}"
    return RpcError(code, f"path '{path}' {reason}")
