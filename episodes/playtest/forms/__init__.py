"""Forms made from the JSON Schema of a tool's input, and back: `answer.py` is the door, `form.py` the thing itself."""
