"""`chunkloom plugins`: plug-ins that are there, and files of one's own."""

from __future__ import annotations

import click


@click.group()
def plugins() -> None:
    """Plug-ins: ops, kinds of model and chain steps that do not come with chunkloom.

    Installed packages bring their own. A single Python file becomes one with `register`. They are programs, and run
    with all your rights.
    """


@plugins.command("list")
def list_plugins() -> None:
    """List the plug-ins, and why one could not be loaded."""
    from chunkloom.models.older_imports import older_imports
    from chunkloom.plugins import load_plugins, plugin_folder

    found = load_plugins(older_imports)
    for plugin in found:
        state = "" if plugin.error is None else f"  NOT LOADED: {plugin.error}"
        click.echo(f"{plugin.name}  ({plugin.origin}){state}")
    if not found:
        click.echo(f"no plug-ins: none installed, none in {plugin_folder()}")


@plugins.command()
@click.argument("file")
@click.option("--force", is_flag=True, help="Replace a plug-in of the same name.")
def register(file: str, force: bool) -> None:
    """Copy FILE, a Python file, into the plug-in folder.

    Files that import os, subprocess or sys, or call eval and its like, are refused.
    """
    from chunkloom.plugins import register as copy_in

    click.echo(f"registered: {copy_in(file, replace=force)}")


@plugins.command()
@click.argument("name")
def unregister(name: str) -> None:
    """Remove the plug-in file called NAME from the plug-in folder."""
    from chunkloom.plugins import unregister as remove

    click.echo(f"removed: {remove(name)}")
