"""The registry of task kinds: what people read instead of a kind. Handlers are in worker.engine.registry.

The service that enqueues a kind declares it, because the web never imports workers.
"""

TASK_LABELS: dict[str, str] = {}


def task_kind(kind: str, label: str) -> str:
    """Register the label of a task kind and return the kind."""
    TASK_LABELS[kind] = label
    return kind


def task_label(kind: str) -> str:
    """Return the label of a task kind. Rows of kinds that no longer exist show the kind in words."""
    return TASK_LABELS.get(kind) or kind.replace("_", " ").capitalize()
