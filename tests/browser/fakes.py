"""A page on a made-up source, for sizes that no test has the time to capture.

Nothing is served: requests to a host that does not exist are answered from the disk, with
the same security policy as the server's.
"""

from __future__ import annotations

import json
import mimetypes
from pathlib import Path
from typing import Any

import attnscope

STATIC = Path(attnscope.__file__).parent / "serve" / "static"
UNIT = Path(__file__).parent / "unit"
HOST = "http://attnscope.test/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)
BOOT = """
import {{ start }} from "./static/js/main.js";
import {{ fakeSource }} from "./unit/{fake}";
const source = fakeSource({size});
window.attnscopeSource = source;
window.attnscopeApp = start(document.getElementById("attnscope"), source, {{ page: true }});
"""


def open_fake(page: Any, view: str = "", *, fake: str = "fake_trace.js", **size: Any) -> Any:
    """Open the app on a made-up trace.

    Args:
        view: the part after #.
        fake: the module of tests/browser/unit that exports `fakeSource`.
        size: what `fakeSource` takes.
    """
    boot = BOOT.format(fake=fake, size=json.dumps(size))

    def answer(route: Any) -> None:
        name = route.request.url.removeprefix(HOST).split("?")[0].split("#")[0]
        if name in ("", "index.html"):
            text = (STATIC / "index.html").read_text("utf-8")
            body = text.replace("static/js/page.js", "boot.js")
            route.fulfill(
                body=body, content_type="text/html", headers={"content-security-policy": POLICY}
            )
        elif name == "boot.js":
            route.fulfill(body=boot, content_type="text/javascript")
        else:
            name = name.removeprefix("src/attnscope/serve/")  # as modules of unit/ ask for it
            root = UNIT if name.startswith("unit/") else STATIC
            file = root / name.split("/", 1)[1]
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            if file.is_file():
                route.fulfill(body=file.read_bytes(), content_type=kind)
            else:
                route.fulfill(status=404, body="")

    page.route(HOST + "**", answer)
    page.goto("about:blank")
    page.goto(HOST + view)
    return page
