"""The driver of the cast's simulated node."""

from worker import nodes


def connect_simulated_node(app):
    """Return the driver of the cast's node, to check or change it directly."""
    row, directory = app.cast.node, app.extensions["config"].data_dir
    return nodes.connect(nodes.NodeSpec(row.id, row.name, row.driver, row.uri), directory)


def clear_node(node):
    """Remove all machines, disks and faults from the node, because the rollback covers only the database."""
    node.clear()
    for machine in node.machines():
        node.delete(machine.id)
    for disk in node.disks("default"):
        node.delete_disk("default", disk.name)
