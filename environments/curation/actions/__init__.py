"""The actions on many tasks that people choose in the list. Each module of this package is loaded by
the list's pages, which offer every `TaskAction` in it."""
