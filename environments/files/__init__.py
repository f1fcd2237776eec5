"""Files of rows, in and out, for tasks as for episodes: rows of JSON lines, cells of tables, and
downloads."""
