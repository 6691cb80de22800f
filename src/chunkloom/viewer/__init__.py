"""Volumes shown in Neuroglancer: a viewer bound to loopback, and its layers.

Knows volumes only by the addresses they are served at; it serves none itself, and knows nothing of dashboards.
"""
