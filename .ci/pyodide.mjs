// pytest on CPython as WebAssembly, for a Python that nobody has natively:
//   node --stack-size=64000 pyodide.mjs SITE AWAY [PYTEST'S ARGUMENTS]
// SITE has the wheel and pytest, unpacked; AWAY has the tests. npm's pyodide must be installed beside this file.
import { loadPyodide, version } from "pyodide";

const [site, away, ...options] = process.argv.slice(2);
const python = await loadPyodide();
python.mountNodeFS("/site", site);
python.mountNodeFS("/away", away);
python.globals.set("release", version);
python.globals.set("options", python.toPy(options));

// Not `process.exit`: it would cut off what a pipe has not taken yet.
process.exitCode = python.runPython(`
import os, platform, sys

print(f"Python {platform.python_version()} (pyodide {release})", flush=True)
sys.dont_write_bytecode = True  # else it would land in the mounted folders
sys.path.insert(0, "/site")
os.chdir("/away")

import pytest, sidecall

assert sidecall.__file__.startswith("/site/"), sidecall.__file__
int(pytest.main(options))  # also not 0 where no test ran
`);
