"""Checks on values of metadata documents, each with an error that names the document and its member.

A value that comes out of here has the type and the bounds it says; nothing after it checks again.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import numpy as np

from chunkloom.errors import FormatError

# A decoded chunk must fit in memory many times over; real ones are under 1 GB.
MAX_CHUNK_BYTES = 4 * 2**30
MAX_RANK = 32
# Largest index that tensorstore and 64-bit arithmetic on offsets hold with room to spare.
MAX_EXTENT = 2**60
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")


def brief(value: object) -> str:
    """`value` as it goes into a message: shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{where} is {brief(value)}: expected a JSON object")
    return value


def sequence(value: object, where: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        wanted = "a list" if length is None else f"a list of {length}"
        raise FormatError(f"{where} is {brief(value)}: expected {wanted}")
    return value


def text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where} is {brief(value)}: expected a string")
    return value


def integer(value: object, where: str, least: int = 0, most: int = MAX_EXTENT) -> int:
    """A whole number within bounds. 3.0 counts as 3: some writers have only floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise FormatError(f"{where} is {brief(value)}: expected a whole number from {least} to {most}")
    return value


def integers(value: object, where: str, length: int | None = None, least: int = 0) -> tuple[int, ...]:
    entries = sequence(value, where, length)
    if len(entries) > MAX_RANK:
        raise FormatError(f"{where} has {len(entries)} entries: expected at most {MAX_RANK} dimensions")
    return tuple(integer(entry, where, least) for entry in entries)


def number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{where} is {brief(value)}: expected a number")
    try:
        result = float(value)
    except OverflowError as error:
        raise FormatError(f"{where} is too large a number") from error
    if not math.isfinite(result):
        raise FormatError(f"{where} is {brief(value)}: expected a finite number")
    return result


def numbers(value: object, where: str, length: int | None = None) -> tuple[float, ...]:
    return tuple(number(entry, where) for entry in sequence(value, where, length))


def voxel_sizes(value: object, where: str, length: int | None = None) -> tuple[float, ...]:
    sizes = numbers(value, where, length)
    # A size must also survive the conversion to nm and multiplication by the extent of an array.
    if not all(1e-100 < size < 1e100 for size in sizes):
        raise FormatError(f"{where} is {brief(value)}: expected positive voxel sizes")
    return sizes


def number_type(name: str, where: str) -> np.dtype[Any]:
    """The numpy dtype of `name`, with its byte order.

    Raises
    ------
    FormatError
        For what is not a boolean or number of 1 to 8 bytes (or complex).
    """
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{where} is {brief(name)}: not a data type") from error
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise FormatError(
            f"{where} is {brief(name)}: expected a type of numbers or booleans, which a volume is made of"
        )
    return dtype


def check_chunk_size(chunk: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    """Refuse a chunk that no reader could hold, before anything allocates it."""
    size = math.prod(chunk) * dtype.itemsize
    if size > MAX_CHUNK_BYTES:
        raise FormatError(
            f"{where} declares chunks of {' x '.join(map(str, chunk))} {dtype.name} = {size} bytes: "
            f"expected at most {MAX_CHUNK_BYTES}. Rewrite the array with smaller chunks, or repair its metadata"
        )


def fill_number(value: object, dtype: np.dtype[Any], where: str) -> Any:
    """The fill value that JSON `value` stands for, as a numpy scalar of native `dtype`; 0 for null.

    Integers stay exact (2**64 - 1 is not rounded through a float).
    """
    native = dtype.newbyteorder("=")
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if value is None or value == "":
        return native.type(0)
    if native.kind == "c":
        real, imaginary = value if isinstance(value, list) and len(value) == 2 else (value, 0)
        part = np.dtype("f8")
        return native.type(complex(fill_number(real, part, where), fill_number(imaginary, part, where)))
    number: Any = value
    if isinstance(value, str):
        if native.kind == "f" and value in special:
            return native.type(special[value])
        # zarr v3 allows the bytes of a number in hexadecimal, which is how NaNs with a payload are kept.
        if native.kind in "iuf" and _HEX.fullmatch(value) and len(value) == 2 + 2 * native.itemsize:
            return np.array(int(value, 16), f"u{native.itemsize}").view(native)[()]
    elif native.kind == "b":
        if number in (True, False):
            return native.type(bool(number))
    elif isinstance(value, bool | int | float):
        if native.kind == "f":
            with contextlib.suppress(OverflowError), np.errstate(over="ignore"):
                return native.type(number)
        elif math.isfinite(number) and int(number) == number:
            limits = np.iinfo(native)
            if limits.min <= int(number) <= limits.max:
                return native.type(int(number))
    raise FormatError(f"{where} is {brief(value)}: expected a value of {native.name}")
