"""Where the code reaches into another library, one module does, and what it relies on was read in these versions.

A failure says that the library has changed what you rely on: read it again, run that module's tests, and add a line.
"""

import hashlib
import inspect
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]
READ = {
    "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol": {"18fdf324b11b": "0.53.0, 0.54.0"},
    "uvicorn.protocols.http.httptools_impl:RequestResponseCycle": {"e67d470d435d": "0.53.0, 0.54.0"},
    "uvicorn.server:Server.startup": {"2aa1d70a244b": "0.53.0, 0.54.0"},
    "uvicorn.server:Server.handle_exit": {"553276efa26e": "0.53.0, 0.54.0"},
    "uvicorn.server:Server.on_tick": {"60ea49b06ccf": "0.53.0, 0.54.0"},
}


@pytest.mark.parametrize("name", READ)
def test_what_is_relied_on_was_read(name):
    digest = hashlib.sha256(inspect.getsource(resolve_name(name)).encode()).hexdigest()[:12]
    library = name.partition(".")[0]
    assert digest in READ[name], f"{library} {version(library)} has another {name} than was read, {digest}"


def test_one_module_reaches_in():
    shipped = [file for room in ("client", "service", "trainer") for file in (ROOT / room).rglob("*.py")]
    assert len(shipped) > 150
    reaching = [str(file.relative_to(ROOT)) for file in shipped if "uvicorn.protocols" in file.read_text()]
    assert reaching == ["service/dare_service/uvicorn_connection.py"]
