"""Small stand-ins for modules of the standard library, for the planner in the browser alone.

The idea: Brython runs the planner, and the library's own `dataclasses` and `typing` bring
`inspect`, `ast` and `tokenize`, whose compilation takes seconds in a browser. What the planner uses
of them is little. Each module here is put in the place of its namesake, in the browser and nowhere
else; that the planner answers the same there is tested on every config there is (tests/browser).

Not here: the bundle (../browser_python.py).
"""
