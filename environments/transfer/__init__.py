"""Transfer: tasks from files into splits, and out of them again. Driven by the admin's pages and by commands.

    file -> source (which format) -> jsonl | json_array | csv_table | parquet_table: rows, one at a time
         -> check: strict JSON, the environment's schema, reserved columns
         -> review: added, changed, duplicate or refused, by what the database holds   (a dry run ends here)
         -> staging, settling: written in batches that nobody sees, then visible all at once

Whatever the size of a file, memory holds one batch; what has to be remembered of every row lies in a temporary file.
"""
