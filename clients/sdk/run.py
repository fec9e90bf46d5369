"""Generates an SDK in each language from the committed openapi.yaml, counts its operations, and uses it against the server.

    python run.py [python|typescript|rust|go ...]

A generator that warns fails. What is generated goes to clients/.build, or beside the program that uses it where it must.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent
sys.path.insert(0, str(CLIENTS / "cases"))

import proxy as p  # noqa: E402
from service import ROOT, Service, target  # noqa: E402

DOCUMENT = ROOT / "openapi.yaml"
BUILD = CLIENTS / ".build/sdk"
TOKEN = "a-token-for-this-run-only-0123456789"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Its output; a failure, or a line that warns, ends everything."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0 or re.search(r"warn", done.stdout, re.IGNORECASE):
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\nfailed or warned: {done.returncode}")
    return done.stdout


def operations() -> list[str]:
    document = yaml.safe_load(DOCUMENT.read_text())
    methods = {"get", "put", "post", "patch", "delete"}
    return sorted(item[method]["operationId"] for item in document["paths"].values() for method in methods & item.keys())


def snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def compare(generated: list[str], wanted: list[str]) -> None:
    if sorted(generated) != sorted(wanted):
        sys.exit(f"generated {sorted(generated)}, the document has {sorted(wanted)}")


# B63
def python(url: str, token: str) -> None:
    folder = BUILD / "python"
    run("openapi-python-client", "generate", "--path", DOCUMENT, "--output-path", folder, "--overwrite", "--fail-on-warning")
    modules = [file.stem for file in folder.glob("reservation_api_client/api/*/*.py") if file.stem != "__init__"]
    compare(modules, [snake(name) for name in operations()])
    os.environ["MYPYPATH"] = str(folder)
    run(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={BUILD}/mypy", HERE / "check.py")
    os.environ["PYTHONPATH"] = str(folder)
    run(sys.executable, HERE / "check.py", url, token)


# B64
def typescript(url: str, token: str) -> None:
    folder = HERE / "typescript"
    run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)
    run("npm", "run", "build", cwd=folder)
    interface = re.search(r"export interface operations \{\n(.*?)\n\}", (folder / "schema.ts").read_text(), re.DOTALL)
    compare(re.findall(r"^    (\w+): \{", interface[1] if interface else "", re.MULTILINE), operations())
    run("node", folder / "dist/check.js", url, token)
    typescript_fetch(folder / "node_modules/.bin/tsc")


def typescript_fetch(tsc: Path) -> None:
    """The other widespread generator for TypeScript: what it makes compiles in strict mode."""
    folder = openapi_generator("typescript-fetch", "importFileExtension=.js")
    (folder / "package.json").write_text('{"type": "module"}')
    options = ["--strict", "--noEmit", "--target", "ES2022", "--module", "NodeNext", "--lib", "ES2023,DOM"]
    run(tsc, *options, folder / "generated/index.ts")
    found = [re.findall(r"^    async (\w+)\(", file.read_text(), re.MULTILINE) for file in folder.glob("generated/apis/*.ts")]
    compare([name for names in found for name in names if not name.endswith(("Raw", "RequestOpts"))], operations())


# B62
def rust(url: str, token: str) -> None:
    folder = CLIENTS / "rust"
    build = ["cargo", "build", "--quiet", "--locked", "--package", "reservation-sdk"]
    run(*build, cwd=folder)
    messages = run(*build, "--message-format=json", cwd=folder)
    scripts = [line for line in map(json.loads, messages.splitlines()) if line["reason"] == "build-script-executed"]
    (out,) = [line["out_dir"] for line in scripts if "reservation-sdk" in line["package_id"]]
    client = re.search(
        r"^impl Client \{\n.*?^\}", (Path(out) / "sdk.rs").read_text().split("impl ClientHooks")[1], re.DOTALL | re.MULTILINE
    )
    compare(re.findall(r"pub fn (\w+)\(&self\)", client[0] if client else ""), [snake(name) for name in operations()])
    run(target(folder) / "debug/reservation-sdk", url, token)


def openapi_generator(language: str, properties: str, *more: str) -> Path:
    """Generates into `generated` of the folder that it returns."""
    folder = BUILD / language
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The one thing changed: this generator warns about a server address that is relative to the document. It is set when used.
    document = folder / "openapi.yaml"
    document.write_text(re.sub(r'(?m)^(\s+(?:- )?url: )"\."$', r'\1"http://localhost"', DOCUMENT.read_text()))
    generate = ["openapi-generator-cli", "generate", "-g", language, "-i", document, "-o", folder / "generated"]
    run(*generate, "--additional-properties", properties, *more)
    return folder


def go(url: str, token: str) -> None:
    only = "apis,models,supportingFiles=client.go:configuration.go:response.go:utils.go"
    only += ",apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    folder = openapi_generator("go", "packageName=reservations,withGoMod=false,enumClassPrefix=true", "--global-property", only)
    (folder / "generated").rename(folder / "reservations")
    (folder / "go.mod").write_text("module check\n\ngo 1.19\n")
    shutil.copy(HERE / "main.go", folder)
    run("go", "vet", "./...", cwd=folder)
    run("go", "build", "-o", "check", ".", cwd=folder)
    found = re.findall(
        r"^func \(a \*\w+Service\) (\w+)Execute\(", "".join(file.read_text() for file in folder.glob("reservations/api_*.go")), re.MULTILINE
    )
    compare(found, [name[0].upper() + name[1:] for name in operations()])
    run(folder / "check", url, token)


def scripted(x: p.Exchange) -> None:
    """The proxy does what a request's note asks for."""
    key = x.headers["Idempotency-Key"] or ""
    if b"proxy: text 502" in x.body:
        p.text_502(x)
    elif b"proxy: cut once" in x.body and [seen.key for seen in x.server.seen].count(key) == 1:
        p.cut_after(x)
    elif b"proxy: 503 once" in x.body and [seen.key for seen in x.server.seen].count(key) == 1:
        p.problem(503, "booking-system-busy", "same_key", 1)(x)
    else:
        p.pass_on(x)


SDKS: dict[str, Callable[[str, str], None]] = {"python": python, "typescript": typescript, "rust": rust, "go": go}


def main() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    # The generators, and a formatter without which one of them warns.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    chosen = sys.argv[1:] or list(SDKS)
    # With a token, so that the security scheme of the document is used too.
    with Service(API_TOKENS=f"acme:{TOKEN}") as service, p.Proxy(service.port) as proxy:
        proxy.server.otherwise = scripted
        for name in chosen:
            SDKS[name](proxy.url, TOKEN)
            cut = [booking for booking in service.bookings(name) if booking["note"] == "proxy: cut once"]
            assert len(cut) == 1, f"{name}: the answer that was cut left {len(cut)} bookings"
            print(f"{name}: no warning, {len(operations())} of {len(operations())} operations, every answer as expected", flush=True)
    print(f"{len(chosen)} passed, 0 failed")


if __name__ == "__main__":
    main()
