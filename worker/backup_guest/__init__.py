"""The program of the machine that reads the files of a backup. It runs in that machine, with its own Python.

It mounts the file systems of the backup's disks read-only, and lists and sends what is in them. It imports nothing else
of the panel.
"""
