"""The formats volumes are served and written in: one module each, one small interface (`Format`)."""

from chunkloom.engine.formats.base import ChunkKey, Format, Metadata, codec_names, served_format

__all__ = ["ChunkKey", "Format", "Metadata", "codec_names", "served_format"]
