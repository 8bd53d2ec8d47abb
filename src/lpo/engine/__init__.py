"""The engine: the only room that knows the order of Algorithm 7."""
