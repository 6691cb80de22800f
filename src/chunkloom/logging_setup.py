"""How chunkloom's processes log: one format, to stderr, once per process."""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def configure_logging(level: str = "INFO") -> None:
    """Send every record of `level` and above to stderr in chunkloom's format, replacing earlier handlers."""
    logging.basicConfig(level=level.upper(), format=FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.setLevel(level.upper())  # a logger may tell more to others, such as a dashboard's log panel
    for noisy in ("uvicorn.access", "tornado.access", "urllib3", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
