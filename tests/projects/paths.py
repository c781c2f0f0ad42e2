"""Paths of the projects API."""

PROJECTS_PATH, ASSIGN_PATH = "/api/projects", "/api/project/assign-resource"
