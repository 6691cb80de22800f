"""`chunkloom ops`: the ops that --op takes."""

from __future__ import annotations

import click


@click.command()
@click.argument("name", required=False)
def ops(name: str | None) -> None:
    """List the ops that --op takes, with their parameters; or explain the one called NAME."""
    import dataclasses
    import inspect

    from chunkloom.engine.op import known_ops
    from chunkloom.errors import ParameterError, nearest

    known = known_ops()
    if name is not None and name not in known:
        raise ParameterError(f"unknown op {name!r}: {nearest(name, list(known))}")
    for called, cls in known.items():
        if name in (None, called):
            parameters = [
                f.name if f.default is dataclasses.MISSING else f"{f.name}={f.default}" for f in dataclasses.fields(cls)
            ]
            text = inspect.cleandoc(cls.__doc__ or "")
            click.echo(f"{called}: {', '.join(parameters)}" if parameters else called)
            click.echo("    " + (text.partition("\n")[0] if name is None else text.replace("\n", "\n    ")))
