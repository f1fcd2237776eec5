"""What operators do with a database: backup, restore, and finding out whether everything in it is
right."""
