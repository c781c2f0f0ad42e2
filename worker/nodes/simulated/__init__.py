"""A node that exists only in a file: for demonstrations without a hypervisor, for load tests and for fault tests.

It fulfils the whole contract, between processes and across restarts. Its machines use no processor: their counters are
computed on request.
"""

from pathlib import Path

from panel.core.messages import message
from worker.nodes.base import Capabilities, GiB, NodeDriver, NodeSpec
from worker.nodes.simulated.backups import Backups
from worker.nodes.simulated.channels import Channels
from worker.nodes.simulated.fault_injection import Faults, InlineCircuitBreaker, inject_faults
from worker.nodes.simulated.firmware_states import FirmwareStates
from worker.nodes.simulated.guests import Guests
from worker.nodes.simulated.hotplug import Hotplug
from worker.nodes.simulated.importing import Importing
from worker.nodes.simulated.media import Media
from worker.nodes.simulated.migration import Migration
from worker.nodes.simulated.options import parse_options
from worker.nodes.simulated.overlays import Overlays
from worker.nodes.simulated.sandbox_networks import SandboxNetworks
from worker.nodes.simulated.saved_states import SavedStates
from worker.nodes.simulated.snapshots import Snapshots
from worker.nodes.simulated.state import State
from worker.nodes.simulated.test_hooks import ExternalActions


@inject_faults
class SimulatedNode(
    SandboxNetworks,
    FirmwareStates,
    SavedStates,
    Channels,
    Backups,
    Media,
    Overlays,
    Snapshots,
    Hotplug,
    Migration,
    Importing,
    Guests,
    Faults,
    ExternalActions,
    NodeDriver,
):
    def __init__(self, spec: NodeSpec, data_dir: Path) -> None:
        super().__init__(spec, data_dir)
        self.options = parse_options(spec.uri)
        self.circuit = InlineCircuitBreaker(spec.name)
        self.state = State(data_dir / "simulated" / f"{spec.id}.db")

    def ping(self) -> None:
        self.state.rows("SELECT 1")

    def close(self) -> None:
        self.state.close()

    def capabilities(self) -> Capabilities:
        with self.state.snapshot() as db:
            names = [row["name"] for row in db.execute("SELECT name FROM pools ORDER BY name")]
            pools = tuple(self._describe_pool(db, name) for name in names)
        return Capabilities(
            version="simulated",
            cpu_cores=self.options.cores,
            memory=self.options.memory_gb * GiB,
            accelerated=False,
            acceleration_note=message("This hypervisor is simulated: it has no real guests."),
            bandwidth_limits=True,
            address_filters=True,
            tpm=bool(self.options.tpm),
            secure_boot=bool(self.options.secure_boot),
            pools=pools,
            screen_tickets=bool(self.options.tickets),
        )
