"""The doors for agents: what they share (`http/`), the Open Reward Standard (`ors/`) and MCP
(`mcp/`)."""
