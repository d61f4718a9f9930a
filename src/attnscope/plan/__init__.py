"""What attention costs: bytes and FLOPs of any config; standard library only.

    from attnscope.plan import read
    read("llama-3-8b").kv(context=32768).total_bytes

Not here: measuring (the benchmarks), capturing (attnscope.capture).
"""

from attnscope.plan.model import Answer, Layer, LayerBytes, Model, Store
from attnscope.plan.read import from_config, read

__all__ = ["Answer", "Layer", "LayerBytes", "Model", "Store", "from_config", "read"]
