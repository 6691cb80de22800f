"""Nodes: one group or array in a folder of keys, as its metadata documents describe it.

Knows where each format keeps its documents; not how groups make pyramids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chunkloom.errors import AccessError, FormatError
from chunkloom.io import n5, placement, zarr2, zarr3
from chunkloom.io.discover import refused
from chunkloom.io.layout import ArrayLayout
from chunkloom.io.placement import Found, Multiscale
from chunkloom.io.store import Document, Store

KEYS: dict[str, tuple[str, ...]] = {
    "zarr3": ("zarr.json",),
    "zarr2": (".zarray", ".zattrs", ".zgroup"),
    "n5": ("attributes.json",),
    "precomputed": ("info",),
}


@dataclass(frozen=True)
class Node:
    """A group or an array as its documents describe it."""

    store: Store
    format: Literal["zarr2", "zarr3", "n5", "precomputed"]
    kind: Literal["array", "group"]
    attributes: Mapping[str, Any]
    document: Any
    states: tuple[str, ...]
    key: str = ""

    @property
    def where(self) -> str:
        """The document that describes it."""
        return self.store.where(self.key)

    @property
    def attributes_where(self) -> str:
        return self.store.where(".zattrs") if self.format == "zarr2" else self.where


def read_node(store: Store, formats: Sequence[str]) -> Node | None:
    """The node at `store`; None where there is none.

    A refusal counts only when nothing else is there: object stores that forbid listing refuse what does not exist.
    """
    keys = [key for name in formats for key in KEYS.get(name, ())]
    found = store.read_json_many(keys)
    if store.location.is_local:
        for answer in found.values():
            if isinstance(answer, AccessError):
                raise answer
    for key, answer in found.items():
        if isinstance(answer, Exception) and not isinstance(answer, AccessError) and key != "info":
            raise answer
    documents = {key: answer for key, answer in found.items() if isinstance(answer, Document)}
    node = _node(store, documents, found)
    if node is None:
        refusal = refused(found)
        if refusal is not None:
            raise refusal
        broken = found.get("info")
        if isinstance(broken, FormatError):
            raise broken
    return node


def _node(store: Store, documents: dict[str, Document], found: Mapping[str, Any]) -> Node | None:
    v3 = documents.get("zarr.json")
    if v3 is not None and isinstance(v3.value, dict) and v3.value.get("zarr_format") == 3:
        kind = v3.value.get("node_type")
        if kind not in ("array", "group"):
            raise FormatError(f"{store.where('zarr.json')}: node_type is {kind!r}: expected 'array' or 'group'")
        attributes = v3.value.get("attributes")
        attributes = attributes if isinstance(attributes, dict) else {}
        return Node(store, "zarr3", kind, attributes, v3.value, (v3.state,), "zarr.json")
    if v3 is not None:
        raise FormatError(f"{store.where('zarr.json')}: expected an object with zarr_format 3")
    array, attrs, group = (documents.get(key) for key in (".zarray", ".zattrs", ".zgroup"))
    if array is not None or attrs is not None or group is not None:
        if array is None and isinstance(found.get(".zarray"), AccessError) and group is None:
            raise found[".zarray"]
        attributes = attrs.value if attrs is not None and isinstance(attrs.value, dict) else {}
        states = tuple(document.state for document in (array, attrs, group) if document is not None)
        if array is not None:
            return Node(store, "zarr2", "array", attributes, array.value, states, ".zarray")
        return Node(store, "zarr2", "group", attributes, None, states, ".zgroup")
    n5_document = documents.get("attributes.json")
    if n5_document is not None:
        if not isinstance(n5_document.value, dict):
            raise FormatError(f"{store.where('attributes.json')}: expected a JSON object")
        n5_kind: Literal["array", "group"] = "array" if "dimensions" in n5_document.value else "group"
        return Node(store, "n5", n5_kind, n5_document.value, n5_document.value, (n5_document.state,), "attributes.json")
    info = documents.get("info")
    if info is not None and isinstance(info.value, dict) and "scales" in info.value:
        return Node(store, "precomputed", "group", {}, info.value, (info.state,), "info")
    return None


def parse_layout(node: Node, separator: str | None) -> ArrayLayout:
    """The layout of an array.

    Raises
    ------
    FormatError
        When its metadata are broken, or name chunks in another way than they are stored.
    """
    if node.format == "n5":
        return n5.parse_array(node.document, node.where)
    if node.format == "zarr2":
        layout = zarr2.parse_array(node.document, node.where, separator)
        check_chunk_keys(node, layout, "v2", said=separator or node.document.get("dimension_separator"))
    else:
        layout = zarr3.parse_array(node.document, node.where, separator)
        check_chunk_keys(node, layout, layout.details.encoding, said=layout.details.separator)
    return layout


def check_chunk_keys(node: Node, layout: ArrayLayout, encoding: str, said: str | None) -> None:
    """Refuse an array whose every chunk would read as missing, because its files are named in another way.

    `said` is the separator that the metadata or the caller give; None where "." is only the default. Remote places,
    which cannot be listed, are asked for the first chunk, and only in that last case.
    """
    if layout.ndim < 2:
        return
    separator = layout.details.separator
    found = None
    for name, is_folder in node.store.entries():
        way = _named_in(name, is_folder, layout.ndim)
        if way == (encoding, separator):
            return
        found = found or way
    if not node.store.location.is_local and said is None:
        first = ["0"] * layout.ndim
        if not node.store.exists(".".join(first)) and node.store.exists("/".join(first)):
            found = ("v2", "/")
    if found is None:
        return
    example = {("v2", "."): "0.0.0", ("v2", "/"): "0/0/0", ("default", "."): "c.0.0.0", ("default", "/"): "c/0/0/0"}
    stored, wanted = example[found], example[encoding, separator]
    if node.format == "zarr3":
        raise FormatError(
            f"{node.where}: chunk_key_encoding names chunks as {wanted}, but they are stored as {stored}: "
            f"correct it to {found[0]!r} with the separator {found[1]!r}"
        )
    meaning = f"has dimension_separator {said!r}" if said else "has no dimension_separator, which means '.'"
    raise FormatError(
        f'{node.where} {meaning}, but chunks are stored as {stored}: put "dimension_separator": "{found[1]}" '
        f"there, or open it with dimension_separator={found[1]!r} (--dimension-separator {found[1]})"
    )


def _named_in(name: str, is_folder: bool, ndim: int) -> tuple[str, str] | None:
    """The encoding and separator under which an entry of an array's folder is a chunk or holds some."""
    if is_folder:
        return ("default", "/") if name == "c" else ("v2", "/") if name.isdigit() else None
    if re.fullmatch(rf"c(\.\d+){{{ndim}}}", name):
        return ("default", ".")
    return ("v2", ".") if re.fullmatch(rf"\d+(\.\d+){{{ndim - 1}}}", name) else None


def own_placement(node: Node, ndim: int) -> Found:
    """What an array's own attributes say."""
    if node.format == "n5":
        return n5.own_placement(node.attributes, ndim, node.attributes_where)
    return placement.legacy_placement(node.attributes, ndim, node.attributes_where, x_first=False)


def multiscale_of(node: Node) -> Multiscale | None:
    """The OME multiscale in a group's attributes (0.5 nests it under `ome`)."""
    where = node.attributes_where
    ome = node.attributes.get("ome")
    if isinstance(ome, dict) and "multiscales" in ome:
        return placement.parse_multiscales(ome["multiscales"], f"{where}: ome")
    if "multiscales" in node.attributes:
        return placement.parse_multiscales(node.attributes["multiscales"], where)
    return None
