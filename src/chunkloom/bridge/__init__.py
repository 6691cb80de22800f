"""What joins volumes and networks, and the plug-ins of programs that use network files."""
