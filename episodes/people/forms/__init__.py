"""Forms made from the JSON Schema of a tool's input, and back: `answer.py` answers pages, `form.py`
is the form."""
