"""Takes the built pages of `web` into the wheel, as `chunkloom/pages`; says what is missing where they were not built.

`CHUNKLOOM_PAGES=require` refuses to build a wheel without them, and `build` runs npm first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = {"app": "the browser app (`chunkloom app`)", "viewer": "our build of Neuroglancer"}


class PagesHook(BuildHookInterface):
    """The pages in wheels. Editable installs find them in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        wanted = os.environ.get("CHUNKLOOM_PAGES", "")
        web = Path(self.root) / "web"
        if wanted == "build":
            build(web)
        for name, what in PAGES.items():
            folder = web / name / "dist"
            if (folder / "index.html").is_file():
                build_data["force_include"][str(folder)] = f"chunkloom/pages/{name}"
                continue
            missing = f"the wheel lacks {what}: {folder} is not built (`npm ci && npm run build` in web)"
            if wanted:
                raise RuntimeError(missing)
            self.app.display_warning(missing)


def build(web: Path) -> None:
    """Build the pages by npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("CHUNKLOOM_PAGES=build: there is no npm; install Node 20 or newer")
    for words in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        subprocess.run([npm, *words], cwd=web, check=True)
