"""The version, alone in its file so that the build tools can read it without importing the rest."""

__version__ = "0.2.0"
