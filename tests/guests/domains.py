"""The libvirt domain of a machine."""

import libvirt


def find_domain(hypervisor, machine_id):
    return libvirt.open(hypervisor.uri).lookupByUUIDString(machine_id)
