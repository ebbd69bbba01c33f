#!/usr/bin/env python3
"""Compiles the SimObject against the sources of gem5, which need not have been built: the headers that gem5's build
would generate are made by gem5's own generators (build_tools), from our AmbulatorWalker.py too. Links nothing.

usage: headers.py GEM5_CHECKOUT PREFIX
"""

import importlib.abc
import importlib.util
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
# Whose classes the parameters of other classes name.
NAMED = """AbstractMemory ClockDomain DVFSHandler PowerModel PowerModelState PowerState RedirectPath SubSystem System
ThermalModel VoltageDomain Workload""".split()


def generate(checkout, tool, module, out):
    """Runs a generator in this process, with the modules of gem5's SimObjects."""
    files = {path.stem: path for path in sorted((checkout / "src").rglob("*.py")) if "python" not in path.parts}
    files["AmbulatorWalker"] = HERE / "AmbulatorWalker.py"

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "m5.objects":
                init = checkout / "src/python/m5/objects/__init__.py"
                spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[])
                spec.loader_state = [f"m5.objects.{known}" for known in NAMED if known in files]
                return spec
            if name.startswith("m5.objects.") and name.split(".")[-1] in files:
                return importlib.util.spec_from_file_location(name, files[name.split(".")[-1]])
            return None

    sys.path[:0] = [str(checkout / "src/python"), str(checkout / "build_tools")]
    sys.meta_path.insert(0, Finder())
    # What gem5's own importer and its configuration are while it is built.
    sys.modules["importer"] = types.SimpleNamespace(install=lambda: None)
    sys.modules["m5.defines"] = types.SimpleNamespace(buildEnv={"USE_X86_ISA": True, "USE_ARM_ISA": False})
    sys.argv = [tool, module, out]
    runpy.run_path(str(checkout / "build_tools" / tool), run_name="__main__")


def module_of(checkout, pattern, name):
    """The module that declares a class."""
    if (HERE / f"{name}.py").exists():
        return f"m5.objects.{name}"
    for path in sorted((checkout / "src").rglob("*.py")):
        if re.search(pattern % name, path.read_text(errors="replace"), re.M):
            return "m5.params" if path.name == "params.py" else f"m5.objects.{path.stem}"
    raise SystemExit(f"headers.py: {checkout} declares no {name}")


def make(checkout, header, out):
    """One generated header."""
    target, name = out / header, pathlib.Path(header).stem
    target.parent.mkdir(parents=True, exist_ok=True)
    again = [sys.executable, __file__, "--generate", str(checkout)]
    match header.split("/")[0]:
        case "params":
            module = module_of(checkout, r"^class %s\(", name)
            subprocess.run([*again, "sim_object_param_struct_hh.py", module, str(target)], check=True)
        case "enums":
            module = module_of(checkout, r"^class %s\((Scoped)?Enum\)", name)
            subprocess.run([*again, "enum_hh.py", module, str(target)], check=True)
        case "debug":
            tool = checkout / "build_tools/debugflaghh.py"
            subprocess.run([sys.executable, tool, target, name, name, "False", ""], check=True)
        case "config":
            target.write_text(f"#define {name.upper()} 0\n")
        case _:
            raise SystemExit(f"headers.py: {checkout} lacks {header}")


def main():
    if sys.argv[1:2] == ["--generate"]:
        return generate(pathlib.Path(sys.argv[2]), *sys.argv[3:])
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    checkout, prefix = (pathlib.Path(given).resolve() for given in sys.argv[1:])
    if not (checkout / "src/sim/clocked_object.hh").exists():
        raise SystemExit(f"headers.py: {checkout} is no checkout of gem5")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        include = [prefix / "include", HERE]
        theirs = [out, checkout / "src", checkout / "ext", checkout / "ext/magic_enum"]
        command = ["g++", "-std=c++17", "-DTRACING_ON=1", "-Wall", "-Wextra", "-fsyntax-only"]
        command += [f"-I{path}" for path in include] + [f"-isystem{path}" for path in theirs]
        command.append(str(HERE / "ambulator_walker.cc"))
        while True:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            missing = re.search(r"fatal error: (\S+): No such file", done.stderr)
            if missing is None:
                break
            make(checkout, missing.group(1), out)
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        print("the SimObject compiles")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
