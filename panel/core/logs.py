"""Logging setup. Event names are constant, data are keywords, and each line has the request's or task's id. Tokens and
bodies are never logged."""

import logging
import sys

import structlog
from structlog.typing import Processor


def setup_logging(json_logs: bool) -> None:
    """Send the logs of this process, including those of libraries, to standard error."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    traceback_formatter = structlog.dev.plain_traceback  # the default shows local variables, which may be secrets
    text = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=traceback_formatter)
    renderer = structlog.processors.JSONRenderer() if json_logs else text
    errors: list[Processor] = [structlog.processors.format_exc_info] if json_logs else []
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *errors, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for noisy in ("rq.worker", "rq.queue", "rq.scheduler", "rq.cron", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
