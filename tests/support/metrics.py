"""A sample of what a machine used."""

SAMPLE = {
    "cpu_percent": 12.5,
    "memory_used": 256.0,
    "network_receive_mbps": 3.0,
    "network_transmit_mbps": 1.5,
    "disk_read_bytes": 4096.0,
    "disk_write_bytes": 8192.0,
    "disk_read_iops": 2.0,
    "disk_write_iops": 4.0,
}
