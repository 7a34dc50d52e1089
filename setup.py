"""The packages of a wheel: minitensor, and the course in tutorials/ as minitensor_course.

Everything else is in pyproject.toml, which cannot install a folder under another name.
The demo compares with what is in benchmarks/, which is in no wheel.
"""

from setuptools import find_packages, setup

COURSE = "minitensor_course"
PARTS = find_packages("tutorials", exclude=["demo"])

setup(
    packages=[
        *find_packages(include=["minitensor*"]),
        *(COURSE, *(f"{COURSE}.{part}" for part in PARTS)),
    ],
    package_dir={COURSE: "tutorials"},
)
