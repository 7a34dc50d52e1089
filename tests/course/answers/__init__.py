"""Answers to the tasks of the course: right ones, written in several ways, and wrong ones.

A module a lesson: RIGHT has for each task at least three functions, WRONG at least three pairs of a
function and a part of what is said of it.
"""
