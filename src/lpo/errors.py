"""The one exception a user is meant to read: a sentence that ends in its remedy."""


class LPOError(Exception):
    """Something the user can put right; the message says what is wrong and what to do."""
