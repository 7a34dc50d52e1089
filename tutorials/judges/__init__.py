"""The judges of the lessons' tasks: a module for each lesson, with its TASKS in order.

They know what is right by computing it (the interpreter, numpy, a table), not by a kept solution.
"""

__all__: list[str] = []
