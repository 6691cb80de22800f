"""Lengths in nanometres: the unit names that OME, N5, funlib, HDF5 and TIFF metadata use.

Source: the UDUNITS-2 names OME-NGFF asks for (0.4, "axes" metadata), the short forms seen in files, and OME-XML's.
"""

from __future__ import annotations

_PREFIXES = {
    "yotta": 1e24,
    "zetta": 1e21,
    "exa": 1e18,
    "peta": 1e15,
    "tera": 1e12,
    "giga": 1e9,
    "mega": 1e6,
    "kilo": 1e3,
    "hecto": 1e2,
    "deca": 1e1,
    "": 1.0,
    "deci": 1e-1,
    "centi": 1e-2,
    "milli": 1e-3,
    "micro": 1e-6,
    "nano": 1e-9,
    "pico": 1e-12,
    "femto": 1e-15,
    "atto": 1e-18,
    "zepto": 1e-21,
    "yocto": 1e-24,
}
_SHORT = {
    "m": 1e9,
    "dm": 1e8,
    "cm": 1e7,
    "mm": 1e6,
    "um": 1e3,
    "µm": 1e3,  # micro sign
    "μm": 1e3,  # Greek mu
    "\\u00b5m": 1e3,  # ImageJ writes the escape itself
    "micron": 1e3,
    "microns": 1e3,
    "nm": 1.0,
    "pm": 1e-3,
    "fm": 1e-6,
    "km": 1e12,
    "å": 0.1,
    "angstrom": 0.1,
    "angstroms": 0.1,
    "ångström": 0.1,
    "in": 2.54e7,
    "inch": 2.54e7,
    "foot": 3.048e8,
    "ft": 3.048e8,
    "yard": 9.144e8,
    "yd": 9.144e8,
    "mile": 1.609344e12,
    "mi": 1.609344e12,
    "parsec": 3.0856775814913673e25,
}


def _long_names() -> dict[str, float]:
    names = {}
    for prefix, factor in _PREFIXES.items():
        for word in ("meter", "meters", "metre", "metres"):
            names[prefix + word] = float(f"{factor * 1e9:.12g}")
    return names


_NM = {**_long_names(), **_SHORT}


def nm_per(unit: str) -> float | None:
    """How many nm one `unit` is; None for a unit that is not known (or no length)."""
    word = unit.strip()
    # "Å" has two code points, and lower() of one of them is not that of the other.
    word = word.replace("\u212b", "å").lower()
    return _NM.get(word)


def to_nm(value: float, unit: str) -> float | None:
    """`value` `unit`s in nm, without the last-digit noise of the factor (0.05 µm is 50 nm); None as `nm_per`."""
    factor = nm_per(unit)
    if factor is None:
        return None
    if factor >= 1:
        return _clean(value * factor)
    return _clean(value / round(1 / factor, 9))


def _clean(value: float) -> float:
    """`value`, or the decimal of 15 digits that it is within two units of the last place of."""
    short = float(f"{value:.15g}")
    return short if abs(short - value) <= 4e-16 * abs(value) else value
