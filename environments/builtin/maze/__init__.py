from environments.builtin.maze.maze import Maze

__all__ = ["Maze"]
