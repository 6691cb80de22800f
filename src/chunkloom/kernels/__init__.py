"""Pure array functions: what steps and ops compute with."""
