"""Where the code reaches into another library, one module does, and what it relies on was read in these versions.

A failure says that the library has changed what you rely on: read it again, run that module's tests, and add a line.
"""

import hashlib
import inspect
import re
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
    "httpx:Client.__init__": {"a3bbb12afe32": "0.28.1", "821d37d8eee6": "0.27.0"},
    "httpx:HTTPTransport.__init__": {"c5fe8f1eadf4": "0.28.1", "ad19c7dd593b": "0.27.0"},
    "httpcore:ConnectionPool.__init__": {"25af3223decb": "1.0.9", "830db073ebe8": "1.0.0"},
    "httpcore:NetworkBackend.connect_tcp": {"ac221d54e537": "1.0.9", "b8bae34dcd03": "1.0.0"},
    "httpcore:NetworkStream.read": {"4c9fa2b402fa": "1.0.9", "19d6ad6052c5": "1.0.0"},
    "httpcore:NetworkStream.write": {"eb382e94e6bc": "1.0.9", "0ce9f02d8cc1": "1.0.0"},
    "httpcore:NetworkStream.start_tls": {"0dea71649a11": "1.0.9", "3d7e7d921a06": "1.0.0"},
}
ONE_MODULE = {
    r"uvicorn\.protocols": {"service/dare_service/uvicorn_connection.py"},
    r"\._(?:pool|network_backend|mounts)\b": {"client/dare_reward/client.py"},
}


@pytest.mark.parametrize("name", READ)
def test_what_is_relied_on_was_read(name):
    digest = hashlib.sha256(inspect.getsource(resolve_name(name)).encode()).hexdigest()[:12]
    library = name.partition(".")[0]
    assert digest in READ[name], f"{library} {version(library)} has another {name} than was read, {digest}"


@pytest.mark.parametrize("pattern", ONE_MODULE)
def test_one_module_reaches_in(pattern):
    shipped = [file for room in ("client", "service", "trainer") for file in (ROOT / room).rglob("*.py")]
    assert len(shipped) > 200
    reaching = {str(file.relative_to(ROOT)) for file in shipped if re.search(pattern, file.read_text())}
    assert reaching == ONE_MODULE[pattern]
