"""A Compose file."""

COMPOSE_FILE = b"""
services:
  web:
    image: nginx:1.28
    ports: ["8080:80"]
    environment: {GREETING: "${GREETING}"}
"""
