"""Recording while a server of the storage fails: what stops, for how long, and what is lost."""
