"""The only home of transformers: models, tokens, and the observation of real attention."""
