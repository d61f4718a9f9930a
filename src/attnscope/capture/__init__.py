"""The only home of transformers: models, tokens, and the observation of real attention.

    capture(model, text)      run a model and keep its attention: a `Trace`
    observe(model)            the calls of SDPA in any PyTorch code: a list of them

The subpackage can be called as the function: `attnscope.capture(model, text)`.
"""

from attnscope._callable import make_callable

make_callable(__name__, "attnscope.capture.session:capture")
