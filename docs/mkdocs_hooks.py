"""What the documentation takes from the code: tables of ops, steps, commands and codecs, made as the pages are built.

A page says where with a comment such as ``<!-- generated: ops -->``. After the build every page is looked through for
files of other hosts, which would be fetched from them by whoever reads it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s\"'>]+|<link\b[^>]*>"
)
OUTSIDE_LINK = re.compile(r"href=[\"']?(?:https?:)?//")
OUTSIDE_STYLE = re.compile(r"(?:url\(|@import\s*)[\"']?(?:https?:)?//[^)\"';]+")
LEADS_ELSEWHERE = re.compile(r"rel=[\"']?(?:canonical|next|prev)\b")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the generated parts of a page in their places."""
    return MARKER.sub(lambda match: "\n".join(GENERATED[match[1]]()), markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Refuse a site that would make a reader's browser ask another host for something."""
    from mkdocs.exceptions import PluginError

    for page in sorted(Path(config["site_dir"]).rglob("*")):
        if page.suffix in (".html", ".css"):
            outside = list(fetched_from_outside(page.read_text(encoding="utf-8"), page.suffix))
            if outside:
                raise PluginError(f"{page.name} fetches from another host: {outside[0]}")


def fetched_from_outside(text: str, suffix: str) -> Iterator[str]:
    """What a browser fetches from other hosts to show a page or a style sheet."""
    yield from (match[0] for match in OUTSIDE_STYLE.finditer(text if suffix == ".css" else ""))
    for match in FETCHED.finditer(text if suffix == ".html" else ""):
        if not match[0].startswith("<link") or (OUTSIDE_LINK.search(match[0]) and not LEADS_ELSEWHERE.search(match[0])):
            yield match[0]


def ops() -> Iterator[str]:
    """Every named op: its docstring and its fields."""
    from chunkloom.engine.op import known_ops

    for name, cls in known_ops().items():
        yield f"## {name}\n"
        yield f"`ops.{cls.__name__}`. {inspect.cleandoc(cls.__doc__ or '')}\n"
        fields = dataclasses.fields(cls)
        if fields:
            yield "| parameter | type | default |\n|---|---|---|"
            for field in fields:
                needed = field.default is dataclasses.MISSING
                yield f"| `{field.name}` | {_cell(field.type)} | {'needed' if needed else _cell(field.default)} |"
            yield ""
        policy = {"op": "the op over the source's coarser levels", "downsample": "made from the op's own finest level"}
        yield f"Coarser levels: {policy[cls.coarse]}.\n"


def steps() -> Iterator[str]:
    """Every step of a chain: its summary and its parameters."""
    from chunkloom.chain import input_normalizers, postprocessors

    for title, known in (("Normalizers", input_normalizers()), ("Postprocessors", postprocessors())):
        yield f"## {title}\n"
        for name, cls in sorted(known.items()):
            yield f"### {name}\n\n{cls.summary()}\n"
            if cls.parameters():
                yield "| parameter | kind | default | range | |\n|---|---|---|---|---|"
            for called, p in cls.parameters().items():
                default = "needed" if p.required else _cell(p.default)
                yield f"| `{called}` | {p.kind or ''} | {default} | {_range(p)} | {_escape(p.help)} |"
            yield ""


def commands() -> Iterator[str]:
    """Every command with its options, as `--help` has them."""
    import click

    from chunkloom.cli import commands as root

    def described(command: click.Command, words: str) -> Iterator[str]:
        context = click.Context(command, info_name=words)
        usage = " ".join([words, *command.collect_usage_pieces(context)])
        yield f"## {words}\n\n```text\n{usage}\n```\n"
        prose, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
        yield f"{prose.strip()}\n"
        if examples:
            yield f"```text\n{examples.strip()}\n```\n"
        options = [p for p in command.params if isinstance(p, click.Option)]
        if options:
            yield "| option | |\n|---|---|"
        for option in options:
            names, text = option.get_help_record(context) or ("", "")
            yield f"| `{_escape(names)}` | {_escape(text)} |"
        yield ""
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from described(inner, f"{words} {name}")

    for name in root.list_commands(click.Context(root)):
        yield from described(root.commands[name], f"chunkloom {name}")


def codecs() -> Iterator[str]:
    """The format x codec table: what the metadata state for each."""
    import numpy as np

    from chunkloom import array_volume
    from chunkloom.engine.formats import codec_names, served_format

    volume = array_volume(np.zeros((8, 8, 8), np.uint8), chunk=(8, 8, 8))
    members = {
        "zarr2": ("s0/.zarray", lambda data: data["compressor"]),
        "zarr3": ("s0/zarr.json", lambda data: data["codecs"][1:] or None),
        "n5": ("s0/attributes.json", lambda data: data["compression"]),
        "precomputed": ("info", lambda data: data["scales"][0]["encoding"]),
    }
    yield "| `--codec` | " + " | ".join(members) + " |\n|---|" + "---|" * len(members)
    for codec in codec_names():
        cells = []
        for word, (path, member) in members.items():
            stated = member(json.loads(served_format(word, codec).metadata(volume, "em")[path]))
            cells.append(_cell(json.dumps(stated[0] if isinstance(stated, list) else stated)))
        yield f"| `{codec}` | " + " | ".join(cells) + " |"


def dtypes() -> Iterator[str]:
    """Which dtypes each format holds."""
    from chunkloom.engine.formats import n5, precomputed

    yield "| format | dtypes |\n|---|---|"
    yield "| zarr2, zarr3 | bool, all integers, float16, float32, float64 |"
    yield f"| n5 | {', '.join(n5.DTYPES)} |"
    yield f"| precomputed | {', '.join(precomputed.DTYPES)} |"


def layout() -> Iterator[str]:
    """Every module there is, by package, in the words of the packages' own docstrings."""
    import ast
    import textwrap

    root = Path(__file__).resolve().parent.parent / "src" / "chunkloom"
    yield "```text"
    for package in sorted([root, *(init.parent for init in root.rglob("__init__.py") if init.parent != root)]):
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
        modules = sorted(path.stem for path in package.glob("*.py") if not path.stem.startswith("__"))
        name = "/".join(["chunkloom", *package.relative_to(root).parts])
        yield f"{name}/  {docstring.splitlines()[0] if docstring else ''}".rstrip()
        yield textwrap.fill(" ".join(modules), 100, initial_indent="    ", subsequent_indent="    ")
    yield "```"


def _cell(value: Any) -> str:
    return f"`{_escape(str(value))}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _range(parameter: Any) -> str:
    if parameter.choices:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    above = f"above {parameter.above:g}" if parameter.above is not None else ""
    least = f"from {parameter.minimum:g}" if parameter.minimum is not None else above
    most = f"to {parameter.maximum:g}" if parameter.maximum is not None else ""
    return f"{least} {most}".strip()


GENERATED = {"ops": ops, "steps": steps, "commands": commands, "codecs": codecs, "dtypes": dtypes, "layout": layout}
