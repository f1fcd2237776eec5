"""Scalars, the numbers that trainers report by training step: their JSON and their charts."""
