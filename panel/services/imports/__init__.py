"""Taking over machines that are on a hypervisor and that the panel did not make.

A machine is known as the dictionary that a discovery made of it: its id, name, power, `cpu_cores`, `memory_mb`, `disks`
(device, storage, name, size in GiB, fault), `nics` (mac, network, addresses that its guest told), tpm, secure_boot,
`faults` and `obstacles`.
"""

from panel.services.imports.addresses import subnet_of
from panel.services.imports.records import begun, make
from panel.services.imports.request import ADOPT, adopt, described, of
from panel.services.imports.validate import obstacles, refuse_misfit, too_small

__all__ = ["ADOPT", "adopt", "begun", "described", "make", "obstacles", "of", "refuse_misfit", "subnet_of", "too_small"]
