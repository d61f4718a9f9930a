"""The course as pages: content in Markdown to a site that needs no server.

    from attnscope.lessons.site import build, export
    build()["en/03-softmax.html"]        every file of the site, by path
    export(Path("course"))               the same in a folder, which opens from disk

The idea: content is parsed to a tree (source.py), checked as a whole (check.py), and drawn block by
block (blocks.py and its neighbours) to HTML with MathML; the widgets are the browser side's own
modules, bundled to one script (bundle.py).

Not here: the content (lessons/content), the widgets (serve/static/js/widgets).
"""

from __future__ import annotations

from attnscope.lessons.site.build import build
from attnscope.lessons.site.course import Course, load
from attnscope.lessons.site.source import ContentError
from attnscope.lessons.site.write import export

__all__ = ["ContentError", "Course", "build", "export", "load"]
