"""Builders of the recurrences: Mamba 1 and 2, lightning attention, short convolutions and others.

The idea: as in build.py. Each function says under which names a family keeps the sizes of a state
and of its convolutions.

Not here: attention, MLA and the delta rules (build.py).
"""

from __future__ import annotations

from attnscope.plan import build, kinds
from attnscope.plan.fields import Fields
from attnscope.plan.model import Layer, Store


def mamba1(fields: Fields, index: int, kind: str) -> Layer:
    """Mamba 1 by its own names, and by Jamba's and Zamba's with `mamba_` before them."""
    old = fields.raw("mamba_d_state") is None
    expand = fields.count("expand" if old else "mamba_expand")
    inner = expand * fields.count("hidden_size")
    given = fields.optional("intermediate_size") if old else None
    if given not in (None, inner):
        raise fields.fail(
            f"intermediate_size {given} contradicts expand x hidden_size = {inner}; "
            "the library takes the latter."
        )
    return kinds.mamba(
        index,
        inner=inner,
        states=fields.count("state_size" if old else "mamba_d_state"),
        taps=fields.count("conv_kernel" if old else "mamba_d_conv"),
        source=fields.says(
            "hidden_size", "expand", "state_size", "conv_kernel",
            "mamba_expand", "mamba_d_state", "mamba_d_conv",
        ),
    )  # fmt: skip


def _first(fields: Fields, *names: str) -> int:
    for name in names:
        if fields.has(name):
            return fields.count(name)
    for name in names:
        if fields.raw(name) is not None:
            return fields.count(name)
    return fields.count(names[0])


def mamba2(fields: Fields, index: int, kind: str) -> Layer:
    """Mamba 2 under the names of Mamba2, Bamba, Nemotron-H, Granite, Falcon-H1 and Zamba2."""
    heads = _first(fields, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    names = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    width = next((fields.raw(n) for n in names if isinstance(fields.raw(n), int)), None)
    if width is None and fields.kind == "mamba2":
        width = fields.count("head_dim")
    if width is None:
        inner = fields.count("mamba_expand") * fields.count("hidden_size")
        if inner % heads:
            raise fields.fail(
                f"mamba_expand * hidden_size = {inner:,} is not a multiple of the {heads} Mamba "
                "heads; they contradict each other."
            )
        width = inner // heads
    states = _first(fields, "ssm_state_size", "mamba_d_state", "state_size")
    groups = _first(fields, "n_groups", "mamba_n_groups", "mamba_ngroups")
    taps = _first(fields, "conv_kernel", "mamba_d_conv")
    source = fields.says(
        "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads", *names, "ssm_state_size",
        "mamba_d_state", "state_size", "n_groups", "mamba_n_groups", "mamba_ngroups", "conv_kernel",
        "mamba_d_conv",
    )  # fmt: skip
    return kinds.mamba2(
        index, heads=heads, head_width=fields.check("mamba_head_dim", width), states=states,
        groups=groups, taps=taps, source=source,
    )  # fmt: skip


def lightning(fields: Fields, index: int, kind: str) -> Layer:
    """MiniMax: lightning attention, a square per head, in the type of the activations."""
    heads = build.query_heads(fields, index)
    width = build.head_width(fields, heads)
    source = fields.says("num_attention_heads", "head_dim", "hidden_size")
    return kinds.linear(
        index, heads=heads, key_width=width, value_width=width, number="model", source=source
    )


def short_convolution(fields: Fields, index: int, kind: str) -> Layer:
    """LFM2: `conv_L_cache` taps over the model's width."""
    taps, channels = fields.count("conv_L_cache"), fields.count("hidden_size")
    source = fields.says("hidden_size", "conv_L_cache")
    return kinds.convolution(index, channels=channels, taps=taps, source=source)


def rg_lru(fields: Fields, index: int, kind: str) -> Layer:
    """RecurrentGemma's gated linear recurrence: one number per channel, and a convolution."""
    width = fields.optional("lru_width") or fields.count("hidden_size")
    taps = fields.count("conv1d_width")
    source = fields.says("lru_width", "conv1d_width")
    stores = (
        kinds.state_store(1, width, source=source),
        kinds.taps_store(width, taps, source=source),
    )
    return Layer(
        index, "recurrent", stores, state_flops=4 * width + 2 * width * taps, held=(),
        state_formula=f"4 x {width} + 2 x {width} x {taps} (convolution)",
        note="transformers keeps this state in the module, not in the cache",
    )  # fmt: skip


def with_mamba2(fields: Fields, index: int, kind: str) -> Layer:
    """Attention and Mamba 2 side by side (Falcon-H1, Zamba2)."""
    attention = build.plain(fields, index, "full_attention")
    return kinds.together("full+mamba2", attention, mamba2(fields, index, kind))


def zamba2_hybrid(fields: Fields, index: int, kind: str) -> Layer:
    """Zamba2: the shared attention block reads twice the model's width."""
    wide = 2 * fields.count("hidden_size")
    own = Fields(
        {**fields.values, "head_dim": wide // build.query_heads(fields, index)},
        kind=fields.kind,
        name=fields.name,
    )
    return with_mamba2(own, index, kind)


def zamba_hybrid(fields: Fields, index: int, kind: str) -> Layer:
    """Zamba 1: the shared attention block beside a Mamba."""
    heads = build.query_heads(fields, index)
    width = fields.optional("attention_head_dim") or 2 * fields.count("hidden_size") // heads
    own = Fields({**fields.values, "head_dim": width}, kind=fields.kind, name=fields.name)
    attention = build.plain(own, index, "full_attention")
    return kinds.together("full+mamba", attention, mamba1(fields, index, kind))


def inkling(fields: Fields, index: int, kind: str) -> Layer:
    """Inkling: four short convolutions, in float32: of k, of v, and two of the model's width."""
    attention = build.two_widths(fields, index, kind)
    assert attention.heads is not None
    taps, heads = fields.count("conv_kernel_size"), attention.heads
    channels = heads.kv * (heads.qk + heads.v) + 2 * fields.count("hidden_size")
    source = fields.says("conv_kernel_size", "hidden_size")
    extra = kinds.convolution(index, channels=channels, taps=taps, number="fp32", source=source)
    return kinds.together(f"{attention.kind}+conv", attention, extra)


def zaya(fields: Fields, index: int, kind: str) -> Layer:
    """Zaya: q and k pass two convolutions, and half of v comes from the token before."""
    attention = build.plain(fields, index, "full_attention" if kind == "hybrid" else "sliding")
    assert attention.heads is not None
    taps = fields.count("cca_time0") - 1 + fields.count("cca_time1") - 1
    heads = attention.heads
    channels = (heads.query + heads.kv) * heads.qk
    source = fields.says("cca_time0", "cca_time1", "num_attention_heads", "head_dim")
    extra = kinds.convolution(index, channels=channels, taps=taps, source=source)
    delayed = Store(
        "delayed value", 1, heads.kv * heads.v // 2, "fixed", number="model", source=source
    )
    together = kinds.together(f"{attention.kind}+conv", attention, extra)
    return Layer(
        index, together.kind, (*together.stores, delayed), attention.heads, attention.window,
        state_flops=together.state_flops, state_formula=together.state_formula,
    )  # fmt: skip


def rwkv4(fields: Fields, index: int, kind: str) -> Layer:
    """RWKV 4: five vectors of the attention's width, two of them the last token's inputs."""
    width = fields.optional("attention_hidden_size") or fields.count("hidden_size")
    hidden = fields.count("hidden_size")
    source = fields.says("attention_hidden_size", "hidden_size")
    stores = (
        kinds.state_store(3, width, source=source),
        Store("last inputs", 2, hidden, "fixed", number="model", source=source),
    )
    return Layer(index, "recurrent", stores, state_flops=10 * width, state_formula=f"10 x {width}")
