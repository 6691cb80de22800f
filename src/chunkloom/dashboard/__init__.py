"""The web pages and their REST API: open data, run models, tune the chain, and see it in Neuroglancer."""
