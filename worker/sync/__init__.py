"""Reconciling rows with what hypervisors and guests report."""
