"""What a file system promises, as measured: one check for each promise, compared with what must be there."""
