"""Shows things to people: progress, tables, summaries, pictures. Decides nothing."""
