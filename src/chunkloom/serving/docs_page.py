"""The OpenAPI document as one page of HTML: no scripts, nothing from another host."""

from __future__ import annotations

from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem; color: #1b1b1f; }
h2 { margin: 2.5rem 0 .25rem; font-size: 1.1rem; } h2 code { font-size: 1rem; }
code { background: #f1f1f4; border-radius: 4px; padding: .1rem .35rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; }
td, th { border-top: 1px solid #dcdce2; padding: .35rem .6rem .35rem 0; } th { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  body { background: #16161a; color: #e4e4e9; } code { background: #2a2a31; } td, th { border-color: #3a3a42; }
}
"""


def page(document: dict[str, Any], prefix: str = "") -> str:
    """The page of an OpenAPI document; `prefix` is where the server is mounted."""
    parts = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(prefix + path, method.upper(), operation))
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><p>{escape(document['info']['description'])}</p>"
        f'<p>The same for programs: <a href="{escape(prefix)}/api/openapi.json">openapi.json</a>, '
        f'<a href="{escape(prefix)}/api/schema">the JSON Schema of a volume</a>, '
        f'<a href="{escape(prefix)}/api/ops">the ops</a>.</p>{"".join(parts)}</body></html>\n'
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = []
    for parameter in operation.get("parameters", ()):
        needed = "needed" if parameter.get("required") else "optional"
        rows.append((f"{parameter['name']} ({parameter['in']}, {needed})", parameter.get("description", "")))
    for status, response in operation.get("responses", {}).items():
        rows.append((status, response.get("description", "")))
    listed = "".join(f"<tr><th><code>{escape(name)}</code></th><td>{escape(text)}</td></tr>" for name, text in rows)
    edit = " Needs <code>--allow-edit</code> and the token." if operation.get("security") else ""
    return (
        f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}. "
        f"{escape(operation.get('description', ''))}{edit}</p><table>{listed}</table>"
    )
