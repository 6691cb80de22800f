"""Configuration files as people write them."""
