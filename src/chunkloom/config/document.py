"""A YAML document with the line of each of its values, so that what is wrong with one can be pointed at.

Plain data only: no tag makes an object. Knows no keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from chunkloom.errors import ConfigError, nearest

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000

Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """What a YAML file holds.

    Attributes
    ----------
    source
        The file's name, as messages show it.
    data
        Its mapping.
    lines
        The line (from 1) of each value, by its keys and list positions from the top.
    warnings
        What is odd, though it can be read.
    """

    source: str
    data: dict[str, Any]
    lines: dict[Where, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def line(self, where: Where) -> int | None:
        """The line of a value, or of the nearest thing around it."""
        for length in range(len(where), -1, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return None

    def error(self, where: Where, problem: str) -> ConfigError:
        """An error that names the file, the line and the key."""
        line = self.line(where)
        place = self.source if line is None or not where else f"{self.source}, line {line}"
        key = spelled(where)
        return ConfigError(f"{place}: {key}: {problem}" if key else f"{place}: {problem}")

    def check_keys(self, where: Where, found: Mapping[str, Any], accepted: list[str]) -> None:
        """Refuse a key that is not among those accepted."""
        for key in found:
            if key not in accepted:
                raise self.error((*where, key), f"unknown key {key!r}: {nearest(str(key), accepted)}")


def spelled(where: Where) -> str:
    """A place as people read it: `models.mito.type`, `extra_layers[0].name`."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read_document(path: str | bytes | os.PathLike[Any]) -> Document:
    """The YAML mapping in a file.

    Raises
    ------
    ConfigError
        No path, no such file, no YAML, no mapping, or more than a configuration can sensibly hold.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        # An int would be an open file's number.
        raise ConfigError(f"a configuration's path is {path!r}: expected text or a path")
    name = os.fsdecode(path)
    try:
        with Path(name).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{name}: larger than {MOST_BYTES} bytes: this is no configuration")
    return parse_document(content, name)


def parse_document(content: bytes | str, source: str = "the configuration") -> Document:
    """The YAML mapping in a text. Raises as `read_document`."""
    try:
        loader = yaml.SafeLoader(content)
        try:
            root = loader.get_single_node()
            if root is not None:
                _refuse_bombs(root, source)
            data = None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        reason = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{source}{line}: is not YAML: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: is not YAML: {error}") from error
    if not isinstance(data, dict):
        found = "nothing" if data is None else type(data).__name__
        raise ConfigError(f"{source}: holds {found}: expected keys with values, such as data_path: /data/cell.zarr/em")
    assert root is not None
    lines: dict[Where, int] = {}
    warnings: list[str] = []
    _walk(root, (), lines, warnings, source)
    return Document(source, data, lines, tuple(warnings))


def _refuse_bombs(root: yaml.Node, source: str) -> None:
    """Refuse aliases that make a small file hold very much, or hold itself."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            raise ConfigError(f"{source}, line {node.start_mark.line + 1}: holds itself, by an alias")
        open_nodes.add(id(node))
        total = 1 + sum(size(child) for child in _children(node))
        open_nodes.discard(id(node))
        if total > MOST_VALUES:
            raise ConfigError(f"{source}: holds more than {MOST_VALUES} values: this is no configuration")
        sizes[id(node)] = total
        return total

    size(root)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _walk(node: yaml.Node, where: Where, lines: dict[Where, int], warnings: list[str], source: str) -> None:
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            _walk(item, (*where, i), lines, warnings, source)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in seen and seen[key.value] != line:
                called = spelled((*where, key.value))
                warnings.append(f"{source}: {called} stands on lines {seen[key.value]} and {line}: the last counts")
            seen[key.value] = line
            # The key's line: a value may begin on the next.
            lines[(*where, key.value)] = line
            _walk(value, (*where, key.value), lines, warnings, source)
