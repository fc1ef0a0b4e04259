"""Maps the five folders at the root onto subpackages of pliant; everything else is in pyproject.toml.

The links pliant/ir -> ../ir, ... serve the tools that read source (type checkers, linters); this mapping serves the
build, so that a wheel is right even from a copy of the source in which the links were lost.
"""

from setuptools import find_packages, setup

FOLDERS = ("ir", "passes", "compiler", "runtime", "frontends")

packages = ["pliant"]
for folder in FOLDERS:
    packages.append(f"pliant.{folder}")
    packages.extend(f"pliant.{folder}.{name}" for name in find_packages(folder))

setup(
    packages=packages,
    package_dir={"pliant": "pliant", **{f"pliant.{folder}": folder for folder in FOLDERS}},
)
