"""Data classes as the planner uses them: frozen or not, with defaults, compared and replaced.

Not here: order, slots, post-initialisation, inheritance between data classes.
"""

from typing import Any


class FrozenInstanceError(AttributeError):
    """A field of a frozen object is set."""


MISSING = object()


class Field:
    """A field: its default, and whether it is shown and compared."""

    def __init__(self, default: Any, default_factory: Any, repr: bool, compare: bool) -> None:
        self.name = ""
        self.default, self.default_factory = default, default_factory
        self.repr, self.compare = repr, compare


def field(
    *, default: Any = MISSING, default_factory: Any = MISSING, repr: bool = True,
    compare: bool = True,
) -> Any:  # fmt: skip
    """A field with more than a plain default."""
    return Field(default, default_factory, repr, compare)


def dataclass(cls: Any = None, *, frozen: bool = False) -> Any:
    """Make a class of its annotated names."""
    return _made(cls, frozen) if cls is not None else lambda one: _made(one, frozen)


def _made(cls: Any, frozen: bool) -> Any:
    found = {}
    for name in cls.__dict__.get("__annotations__", {}):  # noqa: RUF063 (inspect is what is avoided)
        given = cls.__dict__.get(name, MISSING)
        one = given if isinstance(given, Field) else Field(given, MISSING, True, True)
        one.name = name
        if isinstance(given, Field):
            delattr(cls, name)
            if one.default is not MISSING:
                setattr(cls, name, one.default)
        found[name] = one
    cls.__dataclass_fields__ = found
    cls.__init__ = _initialiser(cls.__name__, found)
    shown = [name for name, one in found.items() if one.repr]
    cls.__repr__ = lambda self: (
        f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
    )
    compared = [name for name, one in found.items() if one.compare]

    def key(self: Any) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in compared])

    cls.__eq__ = lambda self, other: (
        key(self) == key(other) if self.__class__ is other.__class__ else NotImplemented
    )
    if frozen:
        cls.__hash__ = lambda self: hash(key(self))
        cls.__setattr__ = _refuse
    return cls


def _refuse(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _initialiser(called: str, found: dict[str, Field]) -> Any:
    names = list(found)
    put = object.__setattr__

    def start(self: Any, *given: Any, **named: Any) -> None:
        if len(given) > len(names):
            raise TypeError(f"{called} takes {len(names)} arguments, got {len(given)}")
        for name, value in zip(names, given):  # noqa: B905 (the rest is named)
            if name in named:
                raise TypeError(f"{called} got two values for {name!r}")
            put(self, name, value)
        for name in names[len(given) :]:
            one = found[name]
            if name in named:
                put(self, name, named.pop(name))
            elif one.default is not MISSING:
                put(self, name, one.default)
            elif one.default_factory is not MISSING:
                put(self, name, one.default_factory())
            else:
                raise TypeError(f"{called} needs {name!r}")
        if named:
            raise TypeError(f"{called} has no field {min(named)!r}")

    return start


def replace(one: Any, /, **changes: Any) -> Any:
    """A copy with other values in some fields."""
    for name in one.__dataclass_fields__:
        if name not in changes:
            changes[name] = getattr(one, name)
    return one.__class__(**changes)


def asdict(one: Any) -> dict[str, Any]:
    """The fields as a dict, objects in them too."""
    return {name: _plain(getattr(one, name)) for name in one.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    if isinstance(value, list | tuple):
        return type(value)([_plain(one) for one in value])
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
