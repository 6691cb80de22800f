"""The console script `cellmap_flow`: older command lines, which do what the newer ones do after a line that says so.

It knows how command lines are spelled, not what they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

NOTICE = "cellmap_flow: this is chunkloom now; the command is `chunkloom {words}`"
BAD_CONFIGURATION = 1

# Options for jobs: the models run in this process.
_FOR_JOBS = ("-q", "--queue", "-P", "--project", "--charge-group", "--charge_group")


def main(arguments: list[str] | None = None) -> None:
    """Run an older command line. Bad configuration ends with 1, as it used to."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        words = newer(given)
    except ValueError as error:
        print(f"cellmap_flow: {error}", file=sys.stderr, flush=True)
        sys.exit(BAD_CONFIGURATION)
    called = words[:2] if words[:1] in (["infer"], ["plugins"]) else words[:1]
    print(NOTICE.format(words=" ".join(called) or "--help"), file=sys.stderr, flush=True)
    from chunkloom.cli import BAD_INPUT, leave, run

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(words)
    leave(BAD_CONFIGURATION if code == BAD_INPUT else code)


def newer(given: list[str]) -> list[str]:
    """The words after `chunkloom` for those after `cellmap_flow`.

    Raises
    ------
    ValueError
        A command that there is no longer, or one that is incomplete.
    """
    level, rest = _log_level(given)
    if not rest or rest[0] in ("-h", "--help", "--version"):
        return rest
    from chunkloom.cli import commands

    command, arguments = rest[0], rest[1:]
    if command in _RENAMED:
        words = _RENAMED[command](arguments)
    elif command in commands.commands:
        words = [command, *(_without_jobs(arguments) if command in ("infer", "view", "yaml") else arguments)]
    elif command in _GONE:
        raise ValueError(f"there is no {command} here; chunkloom has {', '.join(commands.commands)}")
    elif command.startswith("-"):
        return rest  # the newer command says what is wrong
    else:
        # `cellmap_flow script …` is a kind of model.
        words = ["infer", command, *_without_jobs(arguments)]
    if level and words[0] in ("infer", "yaml", "view", "serve", "demo", "materialize"):
        words = [*words, "--log-level", level.lower()]
    return words


_GONE = ("dashboard", "app", "blockwise", "finetune")


def _log_level(given: list[str]) -> tuple[str | None, list[str]]:
    """The group's option, which stands before the command."""
    if given[:1] == ["--log-level"] and len(given) > 1:
        return given[1], given[2:]
    if given and given[0].startswith("--log-level="):
        return given[0].partition("=")[2], given[1:]
    return None, given


def _without_jobs(arguments: list[str]) -> list[str]:
    """The arguments without queue and project, each with its value."""
    kept: list[str] = []
    dropped: list[str] = []
    waiting = iter(arguments)
    for word in waiting:
        name, equals, _ = word.partition("=")
        if name in _FOR_JOBS:
            dropped.append(name)
            if not equals:
                next(waiting, None)
        else:
            kept.append(word)
    if dropped:
        print(
            f"cellmap_flow: {', '.join(dropped)}: for jobs; the model runs in this process", file=sys.stderr, flush=True
        )
    return kept


def _run(arguments: list[str]) -> list[str]:
    """`run -m TYPE -d DATA -c key=value …`."""
    kind, rest, waiting = None, [], iter(_without_jobs(arguments))
    for word in waiting:
        name, equals, value = word.partition("=")
        if name in ("-m", "--model-type", "--model_type", "--model"):
            kind = value if equals else next(waiting, None)
        elif name in ("-c", "--config", "--config-param"):
            pair = value if equals else next(waiting, "")
            key, between, setting = (pair or "").partition("=")
            if not between:
                raise ValueError(f"run: -c {pair!r}: expected key=value")
            rest += [f"--{key.strip().replace('_', '-')}", setting]
        else:
            rest.append(word)
    if not kind:
        raise ValueError("run: no -m TYPE: give the type of model; `chunkloom models` lists them")
    return ["infer", kind, *rest]


def _plugins(action: str) -> Callable[[list[str]], list[str]]:
    return lambda arguments: ["plugins", action, *arguments]


_RENAMED: dict[str, Callable[[list[str]], list[str]]] = {
    "run": _run,
    "list-models": lambda arguments: ["models", *arguments],
    "server": lambda arguments: ["serve", *arguments],
    "register": _plugins("register"),
    "unregister": _plugins("unregister"),
    "list-plugins": _plugins("list"),
}


def yaml_main() -> None:
    """`cellmap_flow_yaml …`."""
    main(["yaml", *sys.argv[1:]])


def view_main() -> None:
    """`cellmap_flow_view …`."""
    main(["view", *sys.argv[1:]])


def server_main() -> None:
    """`cellmap_flow_server …`."""
    main(["serve", *sys.argv[1:]])
