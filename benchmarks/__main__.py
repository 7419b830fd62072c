"""Run every benchmark that needs no argument."""

import importlib
import pkgutil

import benchmarks

for module in pkgutil.iter_modules(benchmarks.__path__):
    found = importlib.import_module(f"benchmarks.{module.name}") if module.name != "__main__" else None
    if hasattr(found, "main"):
        print(f"\n## {module.name}\n", flush=True)
        found.main()
