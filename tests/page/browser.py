"""A browser for tests: how it is started, how large its window is, and what must not happen in it."""

import shutil
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

CHROMIUM: Final = shutil.which("chromium")
NEEDED: Final = "no chromium is on the PATH. On Debian: apt-get install chromium"

ARGUMENTS: Final = (
    # For root, as in a container.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # It would ask for updates and the like by itself.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class View:
    """How a reader looks at the page. ``width`` and ``height`` are in CSS pixels."""

    width: int = 1280
    height: int = 800
    color_scheme: Literal["light", "dark"] = "light"
    reduced_motion: Literal["no-preference", "reduce"] = "no-preference"

    @property
    def is_phone(self) -> bool:
        return self.width < 600

    def __str__(self) -> str:
        return f"{self.width}-{self.color_scheme}"


DESKTOP: Final = View()
PHONE: Final = View(390, 844, reduced_motion="reduce")
DARK: Final = View(color_scheme="dark", reduced_motion="reduce")
DARK_PHONE: Final = View(390, 844, color_scheme="dark", reduced_motion="reduce")


@dataclass
class Faults:
    """What went wrong in a page: errors of its console (violations of the Content-Security-Policy are some), exceptions
    that nothing caught, and requests to another origin than ``url``."""

    url: str
    found: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, text: str) -> None:
        """Allow errors with this text in them: a 401 is an error of the console too."""
        self.allowed.append(text)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self._add(f"exception: {error.error}"))
        context.on("request", self._on_request)

    @property
    def unexpected(self) -> list[str]:
        return [fault for fault in self.found if not any(text in fault for text in self.allowed)]

    def _add(self, fault: str) -> None:
        self.found.append(fault)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._add(f"console: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        asked, own = urlsplit(request.url), urlsplit(self.url)
        if asked.scheme not in ("data", "blob") and (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
            self._add(f"request to {request.url}")


def is_wider_than_its_window(page: Page) -> bool:
    """Return whether a reader would have to scroll sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
