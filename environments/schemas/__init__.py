"""JSON Schemas of tools: in the form that model providers accept, and inputs made from them."""
