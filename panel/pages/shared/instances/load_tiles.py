"""The tiles of the overviews of instances and hypervisors: usage now, with the curves of the last hour."""

from panel.core.formatting import format_mib
from panel.services import metrics
from panel.services.metrics.hosts import get_host_series
from panel.web.area_charts import AreaChart, build_bands
from panel.web.translation import gettext as _
from panel.web.translation import ngettext


def build_load_tiles(instance):
    """Return the charts of CPU, memory, disk and network, each with a text beside its value. One query."""
    cores = ngettext("of %(num)s core", "of %(num)s cores", instance.cpu_cores)
    return build_tiles(metrics.get_series(instance, "1h"), cores, instance.ram)


def build_host_load_tiles(hypervisor):
    """Return the same charts of a hypervisor. One query.

    CPU and memory are those of the whole host; of its machines together, where the node did not report the host's.
    """
    cores = ngettext("of %(num)s core", "of %(num)s cores", hypervisor.cpu_cores)
    series = get_host_series(hypervisor, "1h")
    points = [prefer_host_values(point) for point in series["points"]]
    return build_tiles(series | {"points": points}, cores, hypervisor.memory_mb)


def prefer_host_values(point):
    if point["host_cpu_percent"] is None:
        return point
    return point | {"cpu_percent": point["host_cpu_percent"], "memory_used": point["host_memory_used"]}


def build_tiles(series, cores, memory_mb):
    """Return the charts of a series, with `cores` beside the CPU usage."""
    points = {int(point["at"].timestamp()): add_sums(point) for point in series["points"]}
    since, until = series["since"].timestamp(), series["until"].timestamp()
    newest = metrics.find_fresh(series)
    latest = add_sums(newest) if newest else {}
    memory = _("of %(total)s", total=format_mib(memory_mb))
    return [
        (AreaChart(title, unit, build_bands([points], since, until, name), maximum, latest.get(name)), note)
        for title, unit, name, maximum, note in (
            (_("CPU"), "percent", "cpu_percent", 100, cores),
            (_("Memory"), "mib", "memory_used", memory_mb, memory),
            (_("Disk"), "bytes", "disk", None, None),
            (_("Network"), "mbps", "network", None, None),
        )
    ]


def add_sums(point):
    """Return the sample with the sums of both directions of disk and network."""
    disk = point["disk_read_bytes"] + point["disk_write_bytes"]
    network = point["network_receive_mbps"] + point["network_transmit_mbps"]
    return {**point, "disk": disk, "network": network}
