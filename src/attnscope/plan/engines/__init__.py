"""What engines really allocate, one file per engine, each with the version it describes.

Not here: what a model keeps in itself (kinds.py).
"""
