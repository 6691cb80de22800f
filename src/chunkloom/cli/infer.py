"""`chunkloom infer KIND`: a model over a volume, in Neuroglancer. A subcommand for each kind of model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chunkloom.cli.options import server_options
from chunkloom.cli.showing import look, viewing_of, viewing_options

if TYPE_CHECKING:
    from chunkloom.cli.running import ServerOptions
    from chunkloom.models.kinds import ModelConfig
    from chunkloom.models.registry import ModelParameter


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
        from chunkloom.models.registry import model_type, model_types

        if args and not args[0].startswith("-"):
            cls = model_type(args[0])  # an unknown kind is refused with the nearest one
            # Written in another way (case, - and _ do not count), it is still that kind.
            args = [next(name for name, known in model_types().items() if known is cls), *args[1:]]
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
    def run(data: str, ops: tuple[str, ...], server_check: bool, **kw: Any) -> None:
        from chunkloom.cli import running
        from chunkloom.models.registry import build_model

        parameters = {p.name: kw.pop(p.name) for p in described}
        with running.ending_cleanly():
            viewing, options = viewing_of(kw), running.parse_options(kw)
            model = build_model({"type": name, **{key: v for key, v in parameters.items() if v is not None}})
            if server_check:
                click.echo(checked(data, model, options, ops))
                return
            look(running.making(data, options, model=model), options, viewing, ops=ops)

    described = describe_parameters(cls)
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    made = click.command(name, help=summary)(run)
    taken = {flag for option in made.params for flag in getattr(option, "opts", ())} | {"-d", "-h"}
    options = [_option(p, taken) for p in described]
    options += [
        click.Option(["-d", "--data", "--data-path", "data"], required=True, metavar="SOURCE", help="The volume."),
        click.Option(["--op", "ops"], multiple=True, metavar="OP", help="An op over the prediction; again for more."),
        click.Option(
            ["--server-check", "server_check"], is_flag=True, help="Compute one chunk here, say what it is, and end."
        ),
    ]
    made.params[:0] = options
    return made


def _option(parameter: ModelParameter, taken: set[str]) -> click.Option:
    """The option of a parameter; its first letter is a short form where that is free."""
    short = f"-{parameter.name[0]}"
    flags = [] if short in taken else [short]
    taken.add(short)
    words = [*flags, f"--{parameter.name.replace('_', '-')}", parameter.name]
    if parameter.required:
        # A default, even None, would stand in for it.
        return click.Option(words, required=True, help=parameter.help)
    return click.Option(words, default=parameter.default, help=parameter.help)


def checked(data: str, model: ModelConfig, options: ServerOptions, ops: tuple[str, ...]) -> str:
    """What the middle chunk of a prediction is, computed in this process."""
    import time

    from chunkloom.cli import running
    from chunkloom.engine.op import parse_op
    from chunkloom.geometry import Box
    from chunkloom.logging_setup import configure_logging

    configure_logging(options.log_level)
    served = running.making(data, options, model=model)([parse_op(text) for text in ops])
    running.say_notes(served)
    assert served.result is not None
    level = served.volumes[served.result].levels[0]
    index = tuple((n - 1) // 2 for n in level.chunk_grid)
    began = time.perf_counter()
    found = served.volumes[served.result].read(Box.of_chunk(index, level.spatial_chunk).intersect(level.box))
    took = (time.perf_counter() - began) * 1000
    return (
        f"{served.result}: chunk {'.'.join(map(str, index))} of shape {found.shape}, {found.dtype}, "
        f"{found.min():g} to {found.max():g}, in {took:.0f} ms"
    )
