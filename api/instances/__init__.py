"""Instances (virtual machines) and their operations, in both dialects."""

from api import kit

user = kit.User("instance", __name__, description="Instances")
admin = kit.Admin("instance", __name__, description="Instances")

from api.instances import (  # noqa: E402  (they add their routes to the two above)
    actions,  # noqa: F401
    admin_instances,  # noqa: F401
    backup_files,  # noqa: F401
    backup_restore_tests,  # noqa: F401
    backup_restores,  # noqa: F401
    backups,  # noqa: F401
    bulk,  # noqa: F401
    consoles,  # noqa: F401
    customer,  # noqa: F401  # noqa: F401
    deploy_options,  # noqa: F401
    disks,  # noqa: F401
    docker_admin,  # noqa: F401
    docker_deployments,  # noqa: F401
    firewall,  # noqa: F401
    forges,  # noqa: F401
    guest,  # noqa: F401
    hardware_options,  # noqa: F401
    metrics,  # noqa: F401
    network,  # noqa: F401
    optical_drives,  # noqa: F401
    ownership,  # noqa: F401
    plans,  # noqa: F401
    reinstall,  # noqa: F401
    rescue,  # noqa: F401
    self_deploy,  # noqa: F401
    self_provisioning,  # noqa: F401
    snapshots,  # noqa: F401
    state,  # noqa: F401
    suspension,  # noqa: F401
    topology,  # noqa: F401
)
