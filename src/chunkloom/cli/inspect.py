"""`chunkloom inspect`: what a volume is, in words or as JSON."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--checksum", is_flag=True, help="Add the SHA-256 of each level's voxels (reads all of them).")
@click.option("--level", type=click.IntRange(0), metavar="N", help="Only this level; 0 is the finest.")
@click.option("--dimension-separator", type=click.Choice([".", "/"]), help="Of zarr v2 chunk names, where not stated.")
def inspect(path: str, as_json: bool, checksum: bool, level: int | None, dimension_separator: str | None) -> None:
    """Say what a volume is: levels, shape, dtype, chunks, codec, voxel size and corner (nm; z, y, x).

    The corner is that of voxel 0; its centre (what OME metadata call translation) lies half a voxel further.
    """
    import json

    if path.startswith("synthetic://"):
        found = describe_synthetic(path, checksum, level)
    else:
        from chunkloom.io.inspect import describe

        found = describe(path, checksum=checksum, level=level, dimension_separator=dimension_separator)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"{found['path']}: {found['format']}, {len(found['levels'])} level(s)")
    for entry in found["levels"]:
        click.echo(
            f"  {entry['path'] or '.'}: {' x '.join(map(str, entry['shape']))} {entry['dtype']}, axes "
            f"{','.join(entry['axes'])}, chunks {' x '.join(map(str, entry['chunk_shape']))}, codec {entry['codec']}"
        )
        click.echo(
            f"    voxel size {', '.join(f'{v:g}' for v in entry['voxel_size_nm'])} nm, corner "
            f"{', '.join(f'{v:g}' for v in entry['corner_nm'])} nm (z, y, x)"
        )
        if "sha256" in entry:
            click.echo(f"    sha256 {entry['sha256']}")
    for warning in found["warnings"]:
        click.echo(f"  warning: {warning}")


def describe_synthetic(path: str, checksum: bool, level: int | None) -> dict[str, Any]:
    """As `chunkloom.io.inspect.describe`, of a volume that is stored nowhere."""
    from chunkloom.engine.sources import open_volume

    volume = open_volume(path)
    if level is not None:
        volume.level(level)
    entries = []
    for number, described in enumerate(volume.levels):
        if level in (None, number):
            entry = {"path": f"s{number}", **described.describe(), "dtype": described.dtype.name, "codec": "none"}
            if checksum:
                import hashlib

                voxels = volume.read(level=number)
                entry["sha256"] = hashlib.sha256(voxels.astype(voxels.dtype.newbyteorder("<")).data).hexdigest()
            entries.append(entry)
    return {"path": path, "format": "synthetic", "levels": entries, "warnings": list(volume.warnings)}
