"""A model on its device, and a model as an op of a pipeline."""
