"""Imports tasks from files into splits and exports them to files. Used by the admin's pages and by
commands.

    file -> source: finds the format
         -> json_lines | json_array | csv_table | parquet: yield rows, one at a time
         -> review: checks each row (strict JSON, the environment's schema, reserved columns) and
            decides whether it is added, changed, a duplicate or refused (a dry run ends here)
         -> staging, finishing: write in batches that are not visible yet, then make everything
         visible at once

Memory holds one batch, whatever the size of the file. Facts about every row are stored in a
temporary file.
"""
