"""The one exception that is meant for people."""


class InputError(ValueError):
    """Something that was handed to us cannot be used.

    The text is one line: the file, row or key, what was found there, what would be right.
    The command line prints it after `error:` and leaves with status 2.
    """
