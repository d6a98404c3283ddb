"""Language models: loaded from GGUF or Hugging Face folders, run from packed weights.

    from whit.llm import load
    model = load("model.gguf")
    for piece in model.chat([{"role": "user", "content": "Hello"}]): print(piece, end="", flush=True)

`families.py` has a row for each family, `gguf.py` and `huggingface.py` make a `Config` of a file, `model.py` is the
one transformer, made of
`attention.py`, `layers.py` and `weights.py`; `generate.py` runs it with a `cache.py`, `sampling.py` chooses words,
`tokenisers/` and `chat.py`
make words of text.
"""

from whit.llm.language_model import LanguageModel, load
from whit.llm.sampling import Sampling

__all__ = ["LanguageModel", "Sampling", "load"]
