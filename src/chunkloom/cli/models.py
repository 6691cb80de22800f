"""`chunkloom models`: the kinds of model, with their parameters, and those that come with chunkloom."""

from __future__ import annotations

import click


@click.command()
@click.argument("kind", required=False)
def models(kind: str | None) -> None:
    """List the kinds of model with their parameters; or those of KIND alone."""
    from chunkloom.models.modeljson import bundled_models
    from chunkloom.models.registry import model_type

    click.echo(kinds_listing(None if kind is None else model_type(kind)))
    if kind is None:
        click.echo(f"\nBundled models: {', '.join(bundled_models()) or 'none'}")


def kinds_listing(only: type | None = None) -> str:
    """Every kind of model (or one), as in an entry: its word, what it is, and its parameters."""
    from chunkloom.models.registry import describe_parameters, model_types

    lines: list[str] = []
    for word, cls in model_types().items():
        if only is not None and cls is not only:
            continue
        summary = (cls.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"{word}: {summary}" if summary else word)
        described = describe_parameters(cls)
        names = [p.name if p.required else f"{p.name}={shown(p.default)}" for p in described]
        width = max((len(name) for name in names), default=0)
        for name, parameter in zip(names, described, strict=True):
            needed = "needed. " if parameter.required else ""
            lines.append(f"    {name:<{width}}  {needed}{parameter.help}".rstrip())
    return "\n".join(lines)


def shown(value: object) -> str:
    """A default as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
