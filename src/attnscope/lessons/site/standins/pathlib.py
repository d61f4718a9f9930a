"""Paths of the planner's own data, which the bundle carries as texts; there are no other files."""

FILES: dict[str, str] = {}
"""Text by path within the planner's folder: data/defaults.json, data/configs/llama-3-8b.json."""


class Path:
    """A path; the folder of a module is the empty one.

    Args:
        path: with slashes.
    """

    def __init__(self, path: object = "") -> None:
        self.path = "" if str(path).endswith(".py") else str(path)

    def __str__(self) -> str:
        return self.path

    def __truediv__(self, name: str) -> "Path":
        return Path(f"{self.path}/{name}" if self.path else name)

    @property
    def parent(self) -> "Path":
        """The folder."""
        return Path(self.path.rpartition("/")[0])

    @property
    def stem(self) -> str:
        """The name without what follows its last dot."""
        return self.path.rpartition("/")[2].rpartition(".")[0]

    def glob(self, pattern: str) -> list["Path"]:
        """The files in this folder that end as the pattern does after its star."""
        ending = pattern.lstrip("*")
        return [
            Path(one) for one in FILES if one.startswith(f"{self.path}/") and one.endswith(ending)
        ]

    def read_text(self, encoding: str) -> str:
        """The text of a file."""
        return FILES[self.path]
