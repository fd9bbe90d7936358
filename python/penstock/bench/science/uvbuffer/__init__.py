"""The buffer of a radio telescope: `penstock bench uvbuffer` (B6)."""
