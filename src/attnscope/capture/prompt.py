"""What a model is given: token ids in a batch, where each sequence stands, and what to show for it.

The idea: a text, several texts, ids, a padded batch or packed sequences all become one batch of ids
with a list of sequences; everything after this knows sequences only.

Shapes
    ids, attention_mask, position_ids: integer [B, T].

Not here: how a text becomes tokens and spans (tokens.py).
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Any

import torch

from attnscope.capture.calls import Sequence
from attnscope.capture.text import token_ids
from attnscope.capture.tokens import spans_of_ids
from attnscope.errors import ModelError
from attnscope.trace import Token


@dataclass(frozen=True)
class Prompt:
    """A batch.

    Attributes:
        mask: 1 where there is a token, 0 for padding; None where nothing is padded.
        positions: position ids, or None for the model's own.
        sequences: where each sequence stands; `stop` is None where it may grow.
        texts: the text of each sequence, where one was given.
    """

    ids: torch.Tensor
    mask: torch.Tensor | None
    positions: torch.Tensor | None
    sequences: list[Sequence]
    texts: list[str | None]


def read_prompt(
    text: Any,
    tokenizer: Any,
    *,
    attention_mask: torch.Tensor | None,
    position_ids: torch.Tensor | None,
    device: torch.device,
    context: int | None = None,
) -> Prompt:
    """Bring what a caller gave to one form.

    Args:
        context: the most tokens the model reads; a text that cannot fit is refused before all of
            it is tokenized.

    Raises:
        ModelError: a text is longer than the context.
        ValueError, TypeError: no tokens, shapes that do not fit, padding in the middle, or a text
            without a tokenizer.
    """
    if isinstance(text, str):
        text = [text]
        texts: list[str | None] = list(text)
    elif isinstance(text, Many) and text and all(isinstance(one, str) for one in text):
        texts = list(text)
    else:
        return _from_ids(_ids(text, device), attention_mask, position_ids)
    if attention_mask is not None or position_ids is not None:
        raise ValueError("attention_mask and position_ids belong to token ids, not to a text")
    if tokenizer is None:
        raise ValueError("text: a model object needs tokenizer= to read a text; or give token ids")
    return _from_texts(texts, tokenizer, device, context=context)


def _ids(given: Any, device: torch.device) -> torch.Tensor:
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"text: expected a text, several texts, or token ids [T] or [B, T], got "
            f"{type(given).__name__}"
        ) from error
    if ids.ndim == 1:
        ids = ids[None]
    if ids.numel() == 0:
        raise ValueError("text: there are no tokens in it, so there is nothing to read")
    if ids.ndim != 2 or ids.dtype.is_floating_point or ids.dtype == torch.bool:
        raise TypeError(
            f"text: expected token ids as integers [T] or [B, T], got {list(ids.shape)} {ids.dtype}"
        )
    return ids.to(device)


def _from_ids(
    ids: torch.Tensor, mask: torch.Tensor | None, positions: torch.Tensor | None
) -> Prompt:
    for name, given in (("attention_mask", mask), ("position_ids", positions)):
        if given is not None and given.shape != ids.shape:
            raise ValueError(
                f"{name}: expected the shape of the ids, {list(ids.shape)}, got {list(given.shape)}"
            )
    if mask is not None and bool(mask.bool().all()):
        mask = None
    if mask is None:
        sequences = _packed(ids, positions)
    else:
        mask = mask.to(ids.device)
        sequences = [_real(row, b) for b, row in enumerate(mask.bool())]
        if positions is None:
            positions = _counted(mask)
    if positions is not None:
        positions = positions.to(ids.device)
    return Prompt(ids, mask, positions, sequences, [None] * len(sequences))


def _packed(ids: torch.Tensor, positions: torch.Tensor | None) -> list[Sequence]:
    """One sequence per batch row, or as many as its positions begin anew."""
    T = ids.shape[1]
    if positions is None:
        return [Sequence(b) for b in range(len(ids))]
    found = []
    for b, row in enumerate(positions.tolist()):
        starts = [0] + [t for t in range(1, T) if row[t] != row[t - 1] + 1]
        stops: list[int | None] = [*starts[1:], None if len(starts) == 1 else T]
        found += [Sequence(b, *place) for place in zip(starts, stops, strict=True)]
    return found


def _real(row: torch.Tensor, b: int) -> Sequence:
    """Where the tokens of a padded row are."""
    places = row.nonzero().flatten().tolist()
    if not places:
        raise ValueError(f"attention_mask: row {b} hides every token")
    first, last = places[0], places[-1]
    if len(places) != last - first + 1:
        raise ValueError(
            f"attention_mask: row {b} hides tokens between others; pad at the ends only"
        )
    return Sequence(b, first, None if last == len(row) - 1 else last + 1)


def _counted(mask: torch.Tensor) -> torch.Tensor:
    """Position ids that start at each row's first token."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def _from_texts(
    texts: list[str | None], tokenizer: Any, device: torch.device, *, context: int | None
) -> Prompt:
    rows = [token_ids(tokenizer, text or "", context=context) for text in texts]
    longest = max(map(len, rows))
    fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    ids = torch.full((len(rows), longest), fill, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for b, row in enumerate(rows):
        ids[b, longest - len(row) :] = torch.tensor(row)
        mask[b, longest - len(row) :] = 1
    prompt = _from_ids(ids.to(device), mask.to(device), None)
    return Prompt(prompt.ids, prompt.mask, prompt.positions, prompt.sequences, texts)


def context_of(config: Any) -> int | None:
    """The most tokens a model was made for, None where its config does not say."""
    most = getattr(config, "max_position_embeddings", None)
    return most if isinstance(most, int) and most > 0 else None


def check_length(context: int | None, tokens: int) -> None:
    """Tokens and those to be generated must fit the model's context.

    Raises:
        ModelError: they do not.
    """
    if context is not None and tokens > context:
        raise ModelError(
            f"the text has {tokens} tokens (those to be generated included), and the model reads "
            f"{context} at most; shorten it."
        )


def show(tokenizer: Any, text: str | None, ids: list[int]) -> tuple[list[Token], str]:
    """The tokens of one sequence as a trace holds them, and its whole text.

    Args:
        text: the prompt's text if there was one; what `ids` hold beyond it was generated.
    """
    if tokenizer is None:
        return [Token(i, one, f"#{one}", 0, 0) for i, one in enumerate(ids)], ""
    tokens, whole = spans_of_ids(tokenizer, ids, text=text)
    return list(tokens), whole
