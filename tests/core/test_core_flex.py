"""Against flex_attention of PyTorch, run without compilation."""

from __future__ import annotations

import warnings

import pytest
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

from attnscope.testing import attend_by, budget, implementations, qkv

IMPLS = implementations()
RULES = {
    "causal": (lambda b, h, i, j: j <= i, {}),
    "window": (lambda b, h, i, j: (j <= i) & (i - j < 7), {"window": 7}),
    "dilated": (lambda b, h, i, j: (j <= i) & ((i - j) % 3 == 0), "mask"),
    "by_head": (lambda b, h, i, j: (j <= i) & ((i - j) % (h + 1) == 0), "mask"),
}


def flex(q, k, v, rule):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        # Uncompiled it is slow and makes the whole matrix, as it says; a referee may.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        blocks = create_block_mask(rule, 2, 4, 24, 24, device="cpu")
        output, more = flex_attention(
            q, k, v, block_mask=blocks, enable_gqa=True, return_aux=AuxRequest(lse=True)
        )
        return output, more.lse


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("name", RULES)
def test_against_flex(impl: str, name: str) -> None:
    rule, options = RULES[name]
    options = {"mask": rule} if options == "mask" else options
    q, k, v = qkv(queries=24)
    ours = attend_by(impl, q, k, v, statistics="logsumexp", **options)
    peer = flex(q, k, v, rule)
    exact = flex(q.double(), k.double(), v.double(), rule)
    budget(ours.output, peer=peer[0], oracle=exact[0].double(), what="output")
    # Rows with one key have an exact peer; one rounding of numbers near 0 is then all there is.
    scores = (peer[1] - exact[1]).abs().max() + 2e-7
    budget(ours["logsumexp"], peer=exact[1] + scores, oracle=exact[1].double(), what="lse")
