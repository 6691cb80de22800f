"""`chunkloom inspect`: what a volume is, in words or as JSON."""

from __future__ import annotations

import click


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--checksum", is_flag=True, help="Add the SHA-256 of each level's voxels (reads all of them).")
@click.option("--level", type=click.IntRange(0), metavar="N", help="Only this level; 0 is the finest.")
def inspect(path: str, as_json: bool, checksum: bool, level: int | None) -> None:
    """Say what a volume is: levels, shape, dtype, chunks, codec, voxel size and corner (nm; z, y, x)."""
    import json

    from chunkloom.io.inspect import describe

    found = describe(path, checksum=checksum, level=level)
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
