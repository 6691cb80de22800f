"""What kinds of model there are, their geometry, and how one is made from an entry, a file or a name.

Importing this imports no framework: torch and onnxruntime are imported when a model is loaded.
"""
