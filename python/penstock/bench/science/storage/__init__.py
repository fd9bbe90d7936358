"""What jobs read and write: files of a folder, or of a server that is spoken to by its protocol."""
