"""The formats volumes are served and written in: one module each, one small interface (`Format`)."""

from chunkloom.engine.formats.base import (
    DEFAULT_CODEC,
    FORMATS,
    URL_WORDS,
    ChunkKey,
    Format,
    Metadata,
    codec_names,
    codec_of,
    served_format,
)

__all__ = [
    "DEFAULT_CODEC",
    "FORMATS",
    "URL_WORDS",
    "ChunkKey",
    "Format",
    "Metadata",
    "codec_names",
    "codec_of",
    "served_format",
]
