"""What `attnscope plan` is asked, from the words of the command line; each mistake by its option.

The idea: the planner's own checks name arguments; a person typed an option, so what can be wrong
with one is found here first.

Not here: the options (plan.py), what is done with them (attnscope.plan.report).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from attnscope.plan.model import Model
    from attnscope.plan.report import Asked


def check_count(option: str, value: int | None) -> None:
    """Refuse a number of tokens or sequences that is no count.

    Raises:
        BadParameter: below 1, or too large to be meant.
    """
    from attnscope.plan.bytes import LARGEST

    if value is not None and value < 1:
        raise typer.BadParameter(f"{option} must be at least 1, got {value}.")
    if value is not None and value > LARGEST:
        raise typer.BadParameter(f"{option} must be at most {LARGEST:,}, got {value:,}.")


def asked(
    *, context: int, batch: int, dtype: str | None, kv_dtype: str | None, fit: str | None,
    weights: str, device: str | None, heads: str, window: int | None, share: str | None,
    explain: bool,
) -> Asked:  # fmt: skip
    """The options together, each checked.

    Raises:
        BadParameter: an option with a value that it does not take.
    """
    from attnscope.plan.numbers import find_format, model_format
    from attnscope.plan.report import Asked

    if dtype is not None:
        _named("--dtype", model_format, dtype)
    if kv_dtype is not None:
        _named("--kv-dtype", lambda name: find_format(name, argument="--kv-dtype"), kv_dtype)
    return Asked(
        context=context,
        batch=batch,
        dtype=dtype,
        kv_dtype=kv_dtype,
        budget=None if fit is None else _room(fit),
        weights=None if weights == "auto" else _size(weights),
        device=None if device is None else _device(device),
        groups=_heads(heads),
        window=window,
        share=None if share is None else _share(share),
        explain=explain,
    )


def _named(option: str, find: Any, given: str) -> Any:
    """What `find` finds; its refusal under the option's name."""
    try:
        return find(given)
    except ValueError as error:
        words = str(error).replace("kv_dtype", "--kv-dtype")
        argument = option.removeprefix("--")
        words = option + words.removeprefix(argument) if words.startswith(argument) else words
        raise typer.BadParameter(words) from None


def _room(fit: str) -> int:
    """The bytes of --fit: a size, or the memory of a device."""
    from attnscope.plan.fit import find_room

    try:
        return find_room(fit, "--fit")[0]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _size(weights: str) -> int:
    from attnscope.plan.fit import parse_bytes

    try:
        return parse_bytes(weights)
    except ValueError:
        raise typer.BadParameter(
            f"--weights must be bytes such as 54GB or 50GiB (up to 10^18), 0 or auto, "
            f"got {weights!r}."
        ) from None


def _device(device: str) -> Any:
    from attnscope.plan.devices import find_device

    return _named("--device", find_device, device)


def _heads(heads: str) -> tuple[int, ...]:
    groups = []
    for one in heads.split(","):
        if not one.strip().isdecimal() or int(one) < 1:
            raise typer.BadParameter(f"--heads must be numbers such as 4,8, got {heads!r}.")
        groups.append(int(one))
    return tuple(groups)


def _share(share: str) -> tuple[int, int]:
    from attnscope.plan.what_if import parse_share

    try:
        return parse_share(share, "--share")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def check_change(asked: Asked, model: Model) -> None:
    """Refuse a window or a share that says nothing of this model.

    Raises:
        BadParameter: one of the two options needs the other.
    """
    from attnscope.plan.what_if import changed

    try:
        changed(model, window=asked.window, share=asked.share, names=("--window", "--share"))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
