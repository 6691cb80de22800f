"""Virtual volumes: volumes, ops over them, pipelines that are volumes again, and how chunks are made and kept.

Knows nothing of web frameworks, models or viewers.
"""
