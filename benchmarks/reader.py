"""A reader's hand in a real Chromium, and a watch on all that the page does meanwhile.

The idea: what a reader feels is counted from outside the app's own code. The browser's resource
timing says when the page asked for tiles and when the last byte was there; events of mouse, wheel
and keys carry the time at which the browser got them; and a frame is looked at once it is painted.

    requests   every request for tiles that the page makes from the first to the last moment, from
               asking to the last byte, the wait for a free connection included; also those made
               ahead, for which nobody waits. One that the page takes back counts as long as it was
               under way where that is beyond the bound; taken back sooner it is only told.
    moves      every event that moves the map (each step of a drag, each notch of the wheel, each
               key), until a frame is painted that has all its tiles in their own sharpness; events
               of a movement that goes on meanwhile wait for the same frame.
    tasks      everything that held the page for over 50 ms, from the first movement on.

The way: some heads, full and sliding by turns, none seen before. Into each are two dives. A dive
begins with the whole; the wheel goes in, at the diagonal or anywhere below it, three to six notches
a time, through every level down to single pairs; between, the map is dragged by hand or pushed by
keys, and the wheel goes back a little; at the bottom it is dragged, pushed and zoomed some more.
After each gesture is a pause of 0.25 to 1.2 seconds, in which a reader looks.

Units: milliseconds.

Not here: the server, its memory, the bounds (app.py).
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

PAUSES: Final = (0.25, 1.2)
DIVES: Final = 2
STEP_SECONDS: Final = 0.016
NOTCH_SECONDS: Final = 0.06
SIZE: Final = {"width": 1280, "height": 800}

WATCH: Final = """() => {
  window.watch = { tasks: [], moves: [], open: [], buttons: 0 };
  const { watch } = window;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) watch.tasks.push([one.startTime, one.duration]);
  }).observe({ type: "longtask" });
  const within = (event) => event.target instanceof Element && event.target.closest(".map-figure");
  const open = (event) => within(event) && watch.open.push(event.timeStamp);
  addEventListener("pointerdown", () => { watch.buttons = 1; }, true);
  addEventListener("pointerup", () => { watch.buttons = 0; }, true);
  addEventListener("pointermove", (event) => watch.buttons && open(event), true);
  addEventListener("wheel", open, { capture: true, passive: true });
  addEventListener("keydown", open, true);
  const { port1, port2 } = new MessageChannel();
  let frame = 0;
  port1.onmessage = () => {  // after the frame was painted
    const figure = document.querySelector(".map-figure");
    if (figure?.dataset.pending !== "0") return;
    const now = performance.now();
    watch.open = watch.open.filter((at) => {
      if (at >= frame) return true;
      watch.moves.push(now - at);
      return false;
    });
  };
  const each = (at) => {
    frame = at;
    port2.postMessage(0);
    requestAnimationFrame(each);
  };
  requestAnimationFrame(each);
}"""
PAINT: Final = """() => new Promise((resolve) => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  if (found) resolve(found.startTime);
  else new PerformanceObserver((list, self) => {
    self.disconnect();
    resolve(list.getEntriesByName("first-contentful-paint")[0].startTime);
  }).observe({ type: "paint", buffered: true });
})"""


@dataclass
class Seen:
    """What was counted; lists of milliseconds."""

    paints: list[float] = field(default_factory=list)
    maps: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    taken_back: list[float] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    longest_task: float = 0.0


FETCHES: Final = """() => {
  performance.setResourceTimingBufferSize(100000);
  window.takenBack = [];
  const real = window.fetch;
  window.fetch = (address, init) => {
    const begun = performance.now();
    if (String(address).includes("/tiles?")) {
      init?.signal?.addEventListener("abort", () => {
        window.takenBack.push([String(address), begun, performance.now() - begun]);
      });
    }
    return real(address, init);
  };
}"""
TAKEN: Final = """() => {
  const back = window.takenBack;
  const ended = performance.getEntriesByType("resource")
    .filter((one) => one.name.includes("/tiles?"))
    .filter((one) => !back.some(([name, at]) =>
      name === one.name && Math.abs(at - one.startTime) < 2))
    .map((one) => one.duration);
  return [ended, back.map(([, , ms]) => ms)];
}"""


def take(page: Any, seen: Seen) -> None:
    """Count the requests of a page that is about to be left."""
    requests, taken_back = page.evaluate(TAKEN)
    seen.requests += requests
    seen.taken_back += taken_back


def notches(tokens: int) -> int:
    """From a whole of so many tokens to cells of ten pixels: a notch is 0.22 nepers."""
    return round(math.log(10 * tokens / SIZE["height"]) / 0.22)


def wait_drawn(page: Any) -> None:
    """Until all tiles in sight are drawn; a function as a string is what the page forbids."""
    page.wait_for_selector(".map-figure[data-pending='0']", state="attached", timeout=60_000)


class Hand:
    """Moves mouse, wheel and keys as a person does.

    Args:
        page: an open map.
        draw: what decides.
    """

    def __init__(self, page: Any, draw: random.Random) -> None:
        self.page, self.draw = page, draw
        self.box = page.locator(".map-tiles").bounding_box()

    def look(self) -> None:
        """A pause."""
        self.page.wait_for_timeout(1000 * self.draw.uniform(*PAUSES))

    def point(self) -> tuple[float, float]:
        """Somewhere on the map, on the diagonal or below it."""
        down = self.draw.uniform(0.25, 0.9)
        right = down * self.draw.choice((0.97, self.draw.uniform(0.05, 1.0)))
        side = min(self.box["width"], self.box["height"])
        middle = self.box["x"] + self.box["width"] / 2, self.box["y"] + self.box["height"] / 2
        return middle[0] + (right - 0.5) * side, middle[1] + (down - 0.5) * side

    def drag(self) -> None:
        """A pull of a hand's breadth in a third of a second."""
        mouse, (x, y) = self.page.mouse, self.point()
        right, down = self.draw.uniform(-350, 350), self.draw.uniform(-250, 250)
        mouse.move(x, y)
        mouse.down()
        steps = self.draw.randint(12, 24)
        for step in range(1, steps + 1):
            mouse.move(x + right * step / steps, y + down * step / steps)
            time.sleep(STEP_SECONDS)
        mouse.up()

    def wheel(self, notches: int) -> None:
        """So many notches at one place; positive ones go in."""
        self.page.mouse.move(*self.point())
        for _ in range(abs(notches)):
            self.page.mouse.wheel(0, -100 if notches > 0 else 100)
            time.sleep(NOTCH_SECONDS)

    def key(self, key: str, times: int = 1) -> None:
        """A key, pressed so many times."""
        self.page.locator(".map-proxy").focus()
        for _ in range(times):
            self.page.keyboard.press(key)
            time.sleep(2 * NOTCH_SECONDS)

    def wander(self) -> None:
        """A drag, some pushes, or a little way back."""
        kind = self.draw.random()
        if kind < 0.5:
            self.drag()
        elif kind < 0.75:
            self.key(self.draw.choice("wasd"), self.draw.randint(1, 4))
        elif kind < 0.9:
            self.key(self.draw.choice("+-"), self.draw.randint(1, 2))
        else:
            self.wheel(-self.draw.randint(1, 3))
        self.look()

    def dive(self, notches: int) -> None:
        """From the whole down to single pairs, with a look around on the way."""
        while notches > 0:
            step = self.draw.randint(3, 6)
            self.wheel(step)
            notches -= step
            self.look()
            if self.draw.random() < 0.6:
                self.wander()
        for _ in range(3):
            self.wander()


def read(program: str, address: str, views: list[str], tokens: int, *, seed: int = 3) -> Seen:
    """Open the page at the first view three times, then go the way through all of them.

    Args:
        program: of Chromium.
        address: of the server.
        views: links to maps, each a head that was not seen before.
        tokens: of the text; a longer one is a longer dive.
    """
    from playwright.sync_api import sync_playwright

    seen = Seen()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.add_init_script(f"({FETCHES})()")
        for turn in range(3):
            if turn:
                take(page, seen)
                page.goto("about:blank")
            started = time.perf_counter()
            page.goto(address + views[0])
            wait_drawn(page)
            seen.maps.append(1000 * (time.perf_counter() - started))
            seen.paints.append(page.evaluate(PAINT))
        page.evaluate(WATCH)
        hand = Hand(page, random.Random(seed))
        for view in views:
            page.evaluate("(view) => { location.hash = view; }", view)
            hand.look()
            wait_drawn(page)
            for turn in range(DIVES):
                if turn:
                    hand.key("f")
                    hand.look()
                hand.dive(notches(tokens))
        wait_drawn(page)
        page.wait_for_timeout(500)
        take(page, seen)
        watch = page.evaluate("window.watch")
        browser.close()
    if watch["open"]:
        raise RuntimeError(f"{len(watch['open'])} movements were never drawn")
    seen.moves = watch["moves"]
    seen.longest_task = max((duration for _, duration in watch["tasks"]), default=0.0)
    return seen
