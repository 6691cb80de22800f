"""Servers of volumes: the ASGI app that answers chunks, and what runs it."""
