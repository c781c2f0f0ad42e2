"""Importing unmanaged machines: making instances of machines on a hypervisor that the panel did not create.

A machine is the dictionary that a discovery stored: `id`, `name`, `power`, `cpu_cores`, `memory_mb`, `disks` (device,
storage, name, size in GiB, fault), `nics` (mac, network, addresses that its guest reported), `tpm`, `secure_boot`,
`faults` and `obstacles`.
"""

from panel.services.imports.addresses import find_subnet
from panel.services.imports.records import complete_import, create_instance
from panel.services.imports.request import (
    IMPORT_TASK_KIND,
    dump_description,
    get_discovered_machines,
    get_machine,
    import_machine,
    load_description,
)
from panel.services.imports.validate import ensure_compatible, list_blocking_issues, plan_error

__all__ = [
    "IMPORT_TASK_KIND",
    "complete_import",
    "create_instance",
    "dump_description",
    "ensure_compatible",
    "find_subnet",
    "get_discovered_machines",
    "get_machine",
    "import_machine",
    "list_blocking_issues",
    "load_description",
    "plan_error",
]
