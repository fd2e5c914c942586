"""The page's own files, and the description of the API as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi.staticfiles import StaticFiles

from midfea.view.markup import text

FOLDER = Path(__file__).parents[1] / "page"


class PageFiles(StaticFiles):
    """The browser asks for them each time, so that a newer midfea shows its own page."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER, packages=[("midfea.view", "static")], html=True)

    def file_response(self, *arguments: Any, **more: Any) -> Any:
        """The file, with a header that makes the browser ask again."""
        response = super().file_response(*arguments, **more)
        response.headers["cache-control"] = "no-cache"
        return response


def api_page(schema: dict[str, Any]) -> str:
    """HTML of an OpenAPI description, without scripts: those of Swagger come from other servers."""
    rows = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            inputs = [_parameter(p) for p in route.get("parameters", [])]
            for kind, body in route.get("requestBody", {}).get("content", {}).items():
                inputs.append(f"<code>{text(kind)}</code>: {_fields(schema, body['schema'])}")
            rows.append(
                f"<h2><code>{method.upper()} {text(path)}</code></h2>"
                f"<p>{text(route.get('description', ''))}</p>"
                + (f"<ul><li>{'</li><li>'.join(inputs)}</li></ul>" if inputs else "")
            )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(schema['info']['title'])}: API</title>"
        '<link rel="stylesheet" href="/base.css"></head><body><main>'
        f"<h1>API of {text(schema['info']['title'])}</h1><p>Everything that the page does can be done "
        "by other programs on this machine. Errors are <code>{&quot;error&quot;: what was wrong}</code>."
        ' For machines: <a href="/api/openapi.json">openapi.json</a>.</p>'
        f"{''.join(rows)}</main></body></html>"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter.get("schema", {})
    default = f", {text(schema['default'])} by default" if "default" in schema else ""
    required = ", required" if parameter.get("required") else ""
    return f"<code>{text(parameter['name'])}</code> ({text(parameter['in'])}{required}{default})"


def _fields(schema: dict[str, Any], body: dict[str, Any]) -> str:
    if "$ref" in body:
        body = schema["components"]["schemas"][body["$ref"].rpartition("/")[2]]
    elif body.get("allOf"):
        return _fields(schema, body["allOf"][0])
    return ", ".join(f"<code>{text(name)}</code>" for name in body.get("properties", {}))
