"""Contracts of import-linter that it does not bring by itself; `make lint` checks them."""

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """No package imports a private module of another: `batchcut.x._y` is for `batchcut.x` and what lies in it alone.

    Modules at the root, such as `batchcut._errors`, are for all packages.
    """

    type_name = "private modules"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Looks at every import of a module with a private name."""
        private = (module for module in graph.modules if any(part.startswith("_") for part in module.split(".")[2:]))
        wrong = sorted(
            f"{importer} imports {module}"
            for module in private
            for importer in graph.find_modules_that_directly_import(module)
            if importer.split(".")[:2] != module.split(".")[:2]
        )
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Names each such import."""
        metadata: dict[str, Any] = check.metadata
        for line in metadata["wrong"]:
            output.print_error(line)
