"""Task handlers and periodic jobs, a module for each resource."""
