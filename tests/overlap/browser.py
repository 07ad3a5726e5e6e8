"""A headless Chromium, controlled through the WebDriver protocol."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
_LIMIT_SECONDS = 120
_ENTER, _ELEMENT = "\ue007", "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One browser with one page."""

    def __init__(self) -> None:
        assert DRIVER is not None
        self._process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = next(m[1] for line in self._process.stdout if (m := re.search(r"successfully on port (\d+)", line)))
        self._base = f"http://127.0.0.1:{port}/session"
        options = {"args": _ARGUMENTS, "binary": CHROMIUM}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self._base += f"/{session}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=_LIMIT_SECONDS) as answer:
            return json.load(answer)["value"]

    def open(self, path: Any) -> None:
        self._call("POST", "/url", {"url": f"file://{path}"})
        self.run("return new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("POST", "/execute/sync", {"script": script, "args": arguments})

    def errors(self) -> list[str]:
        """Return the messages that the page wrote to the console since the last call."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def press(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def type(self, selector: str, text: str, *, enter: bool = False) -> None:
        path = f"/element/{self._find(selector)}/value"
        self._call("POST", path, {"text": text + (_ENTER if enter else "")})

    def click(self, selector: str) -> None:
        self._call("POST", f"/element/{self._find(selector)}/click", {})

    def click_at(self, x: float, y: float) -> None:
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        moves += [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        self._call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def drag(self, x0: float, x1: float, y: float) -> None:
        moves = [
            {"type": "pointerMove", "x": round(x0), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": round(x1), "y": round(y), "duration": 100},
            {"type": "pointerUp", "button": 0},
        ]
        self._call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def _find(self, selector: str) -> str:
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def text(self, selector: str) -> str:
        return str(self._call("GET", f"/element/{self._find(selector)}/text"))

    @contextmanager
    def width(self, pixels: int) -> Iterator[None]:
        """Lay pages out for a screen of this width for the duration of a block."""
        size = {"width": pixels, "height": 800, "deviceScaleFactor": 0, "mobile": pixels < 500}
        self._emulate("setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self._emulate("clearDeviceMetricsOverride", {})

    def _emulate(self, command: str, parameters: dict[str, Any]) -> None:
        body = {"cmd": f"Emulation.{command}", "params": parameters}
        self._call("POST", "/goog/cdp/execute", body)

    def screenshot(self) -> bytes:
        return base64.b64decode(self._call("GET", "/screenshot"))

    def pdf(self) -> bytes:
        return base64.b64decode(self._call("POST", "/print", {}))

    def close(self) -> None:
        self._call("DELETE", "")
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
