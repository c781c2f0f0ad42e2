"""What machines used: figures that workers write and everybody's charts read."""

from panel.services.metrics.read import RANGES, agent, latest, now_of, series, sparks
from panel.services.metrics.ring_buffer import roll_up, write

__all__ = ["RANGES", "agent", "latest", "now_of", "roll_up", "series", "sparks", "write"]
