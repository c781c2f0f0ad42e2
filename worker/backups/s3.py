"""Objects of a repository in a bucket of an S3 server."""

import base64
import contextlib
import datetime
import hashlib
import math
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, HTTPClientError, SSLError
from botocore.exceptions import ConnectionError as NoConnection
from botocore.exceptions import ReadTimeoutError as ReadTimeout
from botocore.parsers import ResponseParserError
from botocore.session import Session
from urllib3.exceptions import HTTPError

from worker.backups.errors import ObjectNotFound, TargetFailed
from worker.backups.targets import OBJECT_NAME, ObjectStat, Target, check_object_name

CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, ATTEMPTS = 5.0, 30.0, 3
"""Seconds to connect, seconds without a byte from the server, and how often a request is sent at most."""

RETRY_SECONDS = 1.0
MAX_CONNECTIONS = 8

CLIENT_LOCK = threading.Lock()
"""Clients are safe to use from several threads; making them is not."""

LOCK_MODE = "COMPLIANCE"
"""The other one, GOVERNANCE, ends for everyone with a certain privilege."""

ERROR_CODE = re.compile(r"[A-Za-z0-9.]{1,64}")
RANGE_NOT_SATISFIABLE, SERVER_ERROR, NOT_IMPLEMENTED = 416, 500, 501


@dataclass(frozen=True)
class Bucket:
    """A bucket, and how to reach it."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"
    path_style: bool = True
    """Whether the bucket's name is in the path of URLs and not in their host name."""


class RequestFailed(TargetFailed):
    """A request failed. `status` and `code` are the server's, None without an answer."""

    def __init__(self, action: str, reason: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(f"The target failed at {action}: {reason}")
        self.reason, self.status, self.code = reason, status, code
        self.is_unanswered = status is None


class AnswerIncomplete(RequestFailed):
    """The server's answer ended early."""


class S3Target(Target):
    """The objects below a prefix of a bucket. One request stores an object, so there are no incomplete uploads."""

    def __init__(
        self,
        bucket: Bucket,
        prefix: str = "",
        *,
        read_timeout: float = READ_TIMEOUT_SECONDS,
        attempts: int = ATTEMPTS,
    ) -> None:
        """Nothing is sent yet. `prefix` is empty or ends with a slash."""
        self.bucket, self.prefix, self.attempts = bucket.bucket, prefix, attempts
        with CLIENT_LOCK, translate_client_errors("the settings"):
            self.client = get_session().create_client(
                "s3",
                endpoint_url=bucket.endpoint,
                aws_access_key_id=bucket.access_key,
                aws_secret_access_key=bucket.secret_key,
                region_name=bucket.region,
                config=Config(
                    signature_version="s3v4",
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    read_timeout=read_timeout,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                    max_pool_connections=MAX_CONNECTIONS,
                    s3={"addressing_style": "path" if bucket.path_style else "virtual"},
                    # Not every server knows the newer checksums; `put` sends the one that all know.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )

    def get_arguments(self, name: str) -> dict[str, str]:
        check_object_name(name)
        return {"Bucket": self.bucket, "Key": self.prefix + name}

    def put(self, name: str, data: bytes) -> None:
        # Buckets with object lock require a checksum.
        checksum = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        with translate_client_errors(name):
            self.client.put_object(**self.get_arguments(name), Body=data, ContentMD5=checksum)

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        is_range = offset > 0 or length is not None
        end = "" if length is None else offset + length - 1
        options = {"Range": f"bytes={offset}-{end}"} if is_range else {}
        for attempt in range(1, self.attempts + 1):
            try:
                return self.read(name, options)
            except AnswerIncomplete:
                if attempt == self.attempts:
                    raise
                time.sleep(RETRY_SECONDS)
            except RequestFailed as error:
                if error.status == RANGE_NOT_SATISFIABLE:
                    return b""
                self.raise_if_missing(name, error)
                raise
        raise AssertionError("there is at least one attempt")

    def read(self, name: str, options: dict[str, str]) -> bytes:
        with translate_client_errors(name):
            body = self.client.get_object(**self.get_arguments(name), **options)["Body"]
        try:
            return body.read()
        except (BotoCoreError, HTTPError) as error:
            raise AnswerIncomplete(name, "its answer ended early") from error
        finally:
            body.close()

    def list(self, folder: str) -> Iterator[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}{folder}/"
        )
        with translate_client_errors(folder):
            for page in pages:
                for entry in page.get("Contents", ()):
                    name = entry["Key"].removeprefix(self.prefix)
                    if OBJECT_NAME.fullmatch(name):  # consoles create objects that stand for folders
                        yield name

    def stat(self, name: str) -> ObjectStat:
        try:
            with translate_client_errors(name):
                answer = self.client.head_object(**self.get_arguments(name))
        except RequestFailed as error:
            self.raise_if_missing(name, error)
            raise
        return ObjectStat(answer["ContentLength"], answer["LastModified"].timestamp())

    def delete(self, name: str) -> None:
        with translate_client_errors(name):
            self.client.delete_object(**self.get_arguments(name))

    def delete_incomplete(self, seconds: float) -> None:
        """Do nothing: an object is stored by one request."""

    def raise_if_missing(self, name: str, error: RequestFailed) -> None:
        """Raise ObjectNotFound if the error means that, and not that the bucket is missing."""
        if error.status == 404:
            self.check_bucket()
            raise ObjectNotFound(f"The target has no object {name}.") from error

    def check_bucket(self) -> None:
        """Raise RequestFailed unless the bucket can be listed."""
        with translate_client_errors("the bucket"):
            self.client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix, MaxKeys=1)

    def has_object_lock(self) -> bool:
        """Return whether the bucket is known to keep deleted objects for a time. Raises without an answer."""
        try:
            with translate_client_errors("the object lock"):
                answer = self.client.get_object_lock_configuration(Bucket=self.bucket)
        except RequestFailed as error:
            if error.status is None or (error.status >= SERVER_ERROR and error.status != NOT_IMPLEMENTED):
                raise
            return False
        return answer.get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") == "Enabled"

    def lock(self, name: str, until: float) -> float:
        """Lock the object's present version, in compliance mode: nobody can delete that version or shorten the lock."""
        if (present := self.get_lock(name)) >= until:
            return present
        moment = datetime.datetime.fromtimestamp(math.ceil(until), datetime.UTC)
        retention = {"Mode": LOCK_MODE, "RetainUntilDate": moment}
        with translate_client_errors(f"the lock of {name}"):
            self.client.put_object_retention(**self.get_arguments(name), Retention=retention)
        if (present := self.get_lock(name)) < until:
            raise TargetFailed(f"The target did not lock {name}.")
        return present

    def get_lock(self, name: str) -> float:
        """Return until when the object is locked, 0 if it is not."""
        with translate_client_errors(name):
            answer = self.client.head_object(**self.get_arguments(name))
        if answer.get("ObjectLockMode") != LOCK_MODE:
            return 0.0
        return answer["ObjectLockRetainUntilDate"].timestamp()

    def is_locked(self, name: str) -> bool:
        try:
            return self.get_lock(name) > time.time()
        except RequestFailed as error:
            if error.status == 404:
                return False
            raise


@cache
def get_session() -> Session:
    """Return the process's session, which makes further clients fast. It keeps no settings of a bucket."""
    return Session()


@contextlib.contextmanager
def translate_client_errors(action: str) -> Iterator[None]:
    """Raise RequestFailed for errors of the client. Its text has neither the address nor what the server wrote."""
    try:
        yield
    except ClientError as error:
        status, code = error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"].get("Code", "")
        code = code if ERROR_CODE.fullmatch(code) else ""
        reason = "there is no such bucket" if code == "NoSuchBucket" else f"{status} {code.removeprefix(str(status))}"
        raise RequestFailed(action, reason.strip(), status, code) from error
    except ResponseParserError as error:
        raise RequestFailed(action, "the answer is not that of an S3 server") from error
    except (BotoCoreError, HTTPError, ValueError) as error:
        raise RequestFailed(action, describe_failure(error)) from error


def describe_failure(error: Exception) -> str:
    match error:
        case SSLError():
            return "no TLS connection, or its certificate is not accepted"
        case ConnectTimeoutError() | ReadTimeout():
            return "no answer in time"
        case NoConnection():
            return "no connection"
        case HTTPClientError() | HTTPError():
            return "the connection was closed"
        case ValueError():
            return "the endpoint is not a valid URL"
        case _:
            return type(error).__name__
