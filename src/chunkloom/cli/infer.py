"""`chunkloom infer KIND`: a model over a volume, in Neuroglancer. A subcommand for each kind of model."""

from __future__ import annotations

from typing import Any

import click

from chunkloom.cli.options import server_options
from chunkloom.cli.showing import look, viewing_options


class Kinds(click.Group):
    """A subcommand for each kind of model; its options are the constructor's parameters."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from chunkloom.models.registry import model_types

        return list(model_types())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from chunkloom.models.registry import model_types

        cls = model_types().get(cmd_name)
        return None if cls is None else kind_command(cmd_name, cls)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from chunkloom.models.registry import model_type

        if args and not args[0].startswith("-"):
            model_type(args[0])  # an unknown kind is refused with the nearest one
        return super().resolve_command(ctx, args)


@click.group(cls=Kinds)
def infer() -> None:
    """Run a model over a volume and look at it in Neuroglancer.

    \b
    chunkloom infer script --script-path model.py -d cell.zarr/em
    chunkloom infer onnx --path model.onnx -d cell.zarr/em
    """


def kind_command(name: str, cls: type[Any]) -> click.Command:
    """The subcommand of one kind of model."""
    from chunkloom.models.registry import describe_parameters

    @server_options
    @viewing_options
    def run(data: str, ops: tuple[str, ...], once: bool, no_browser: bool, viewer_port: int, **kw: Any) -> None:
        from chunkloom.cli import running

        parameters = {p.name: kw.pop(p.name) for p in described}
        with running.ending_cleanly():
            options = running.parse_options(kw)
            model = cls(**parameters)
            look(data, model, options, ops=ops, once=once, no_browser=no_browser, viewer_port=viewer_port)

    described = describe_parameters(cls)
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    made = click.command(name, help=summary)(run)
    options = [
        click.Option([f"--{p.name.replace('_', '-')}", p.name], required=True, help=p.help)
        if p.required
        else click.Option([f"--{p.name.replace('_', '-')}", p.name], default=p.default, help=p.help)
        for p in described
    ]
    options += [
        click.Option(["-d", "--data", "--data-path", "data"], required=True, metavar="SOURCE", help="The volume."),
        click.Option(["--op", "ops"], multiple=True, metavar="OP", help="An op over the prediction; again for more."),
    ]
    made.params[:0] = options
    return made
