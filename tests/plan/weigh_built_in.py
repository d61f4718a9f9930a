"""Weigh the caches of the built-in configs: what the planner's page shows as measured.

The idea: as in weigh.py, but of models as published. A config is read by the class of its
model_type in the installed transformers, built on the meta device with every layer (experts that
pass their input through), run forward once at each length, and every cache tensor is weighed.

    python tests/plan/weigh_built_in.py           writes src/attnscope/plan/data/weighed.json
    python tests/plan/weigh_built_in.py NAME …    prints what these weigh

Not here: the comparison with the plan (test_plan_weighed.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import weigh

from attnscope.plan import find

TARGET = Path(find.__file__).parent / "data/weighed.json"
LENGTHS = (1_024, 32_768)


def weigh_built_in(name: str, lengths: tuple[int, ...] = LENGTHS) -> dict[str, int]:
    """Bytes of the cache of one sequence at each length, in bf16.

    Raises:
        KeyError: the installed transformers has no such family.
    """
    import torch
    from transformers import AutoConfig

    fields = dict(find.built_in(name).config)
    key = str(fields.pop("model_type"))
    config = AutoConfig.for_model(key, **fields)
    for part in {id(config): config, id(weigh._text(config)): weigh._text(config)}.values():
        part.use_cache = True
        weigh.shrink(part)
    found = {}
    for eager in (False, True):
        try:
            model, part = weigh._build(key, config, "bfloat16", eager=eager)
            with torch.no_grad():
                for length in lengths:
                    cache = weigh._forward(model, part, length, mask=eager)
                    found[str(length)] = sum(weigh.weigh_cache(cache))
            break
        except RuntimeError as error:
            if eager or "meta tensors" not in str(error):
                raise
    return found


def main() -> None:
    """Weigh all that can be, or those named."""
    import torch
    import transformers

    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in sys.argv[1:] or find.built_in_names():
        try:
            found[name] = weigh_built_in(name)
        except Exception as error:
            print(name, "not weighed:", " ".join(str(error).split())[:200], file=sys.stderr)
        else:
            print(name, found[name], file=sys.stderr, flush=True)
    if not sys.argv[1:]:
        said = {"transformers": transformers.__version__, "bytes": found}
        TARGET.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
