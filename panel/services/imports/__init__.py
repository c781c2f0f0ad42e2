"""Importing unmanaged machines: making instances of machines on a hypervisor that the panel did not create.

A machine is the dictionary that a discovery stored: `id`, `name`, `power`, `cpu_cores`, `memory_mb`, `disks` (device,
storage, name, size in GiB, fault), `nics` (mac, network, addresses that its guest reported), `tpm`, `secure_boot`,
`faults` and `obstacles`.
"""

from panel.services.imports.addresses import find_subnet
from panel.services.imports.records import create_instance, on_imported
from panel.services.imports.request import IMPORT_TASK_KIND, get_discovered_machines, get_machine, import_machine
from panel.services.imports.validate import blocking_issues, ensure_compatible, plan_error

__all__ = [
    "IMPORT_TASK_KIND",
    "blocking_issues",
    "create_instance",
    "ensure_compatible",
    "find_subnet",
    "get_discovered_machines",
    "get_machine",
    "import_machine",
    "on_imported",
    "plan_error",
]
