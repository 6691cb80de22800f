"""Where the built pages are: the browser app, and our Neuroglancer for the Python viewer.

They are in the wheel. A source checkout has them where Node built them (`npm run build` in ``web``); where it did not,
there is no folder, and callers say what is missing or do without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]

HOW_TO_BUILD = "it is built by `npm ci && npm run build` in the folder web of a clone (Node 20 or newer)"


def built(what: Literal["app", "viewer"]) -> Path | None:
    """The folder of a built page, with its ``index.html``; None where it was not built.

    Parameters
    ----------
    what
        "app": the browser app. "viewer": Neuroglancer as the Python viewer's page.
    """
    for folder in (_PACKAGE / "pages" / what, _CHECKOUT / "web" / what / "dist"):
        if (folder / "index.html").is_file():
            return folder
    return None
