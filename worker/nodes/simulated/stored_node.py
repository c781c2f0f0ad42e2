"""What every part of a simulated node uses: its state in a file, and its options."""

from typing import TYPE_CHECKING

from worker.nodes.simulated.options import Options

if TYPE_CHECKING:  # the state is made of the parts' tables
    from worker.nodes.simulated.state import State


class StoredNode:
    state: "State"
    options: Options
