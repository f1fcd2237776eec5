"""The bank of `code`: kinds of functions to write, each with many variants and a solution to check
answers by."""
