"""Names that annotations are made of; nothing looks at annotations in the browser."""


class _Form:
    def __getitem__(self, item: object) -> "_Form":
        return self

    def __or__(self, other: object) -> "_Form":
        return self

    __ror__ = __or__


TYPE_CHECKING = False
Any = Final = Literal = _Form()
