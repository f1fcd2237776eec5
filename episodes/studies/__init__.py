"""Studies: fixed lists of tasks for invited people, who gets which task when, and the results."""
