"""A viewer in Chromium, driven by wheel and keys; what is measured is the time from an input to the frame that answers it."""

import contextlib
import math
import os
from pathlib import Path
import time

from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("KYMO_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]  # some viewers call home
SIZE = {"width": 1600, "height": 1000}
PROBE = Path(__file__).with_name("viewer_probe.js")


@contextlib.contextmanager
def chromium():
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def tab(browser):
    context = browser.new_context(viewport=SIZE, accept_downloads=True)
    context.add_init_script(path=PROBE)
    page = context.new_page()
    page.set_default_timeout(60000)
    return page


class Page:
    """What is the same for all viewers. `zoom` and `pan` turn the wheel, `idle` is JavaScript, `area` where the events lie."""

    idle = "true"
    quiet = 100
    least = 0.1  # factor of a zoom by one turn of the wheel

    def __init__(self, page):
        self.page = page

    def settled(self, limit=30000):
        return self.page.evaluate(f"benchProbe.settled(() => {self.idle}, {self.quiet}, {limit})")

    def complete(self, frames):
        """When that one of the frames since the input was drawn that holds everything of the new window: the last one."""
        return frames[-1]["time"] if frames else None

    def step(self, act):
        """(milliseconds from the input to the first frame, to that with all data of the new window); None: never"""
        self.page.evaluate("benchProbe.begin()")
        act()
        seen = self.settled()
        frames = [frame for frame in seen["frames"] if frame["time"] >= seen["input"]]
        at = self.complete(frames) if seen["ok"] and seen["input"] else None
        return (frames[0]["time"] - seen["input"], at - seen["input"]) if at else None

    def go(self, share_x, factor):
        """A zoom by any factor, in as few turns of the wheel as the viewer takes it."""
        turns = max(math.ceil(abs(math.log(factor)) / abs(math.log(self.least))), 1)
        for _ in range(turns):
            self.zoom(share_x, factor ** (1 / turns))

    def place(self, share_x, share_y=0.5):
        x, y, width, height = self.area()
        return x + share_x * width, y + share_y * height

    def move(self, share_x):
        self.page.mouse.move(*self.place(share_x))

    def glide(self, count=90, pixels=12, seconds=6):
        """Milliseconds between the frames of a pan that goes on and on, one turn of the wheel for each frame."""
        self.page.evaluate("benchProbe.begin()")
        begin = due = time.monotonic()
        for i in range(count):
            self.page.mouse.wheel(pixels if i < count * 2 / 3 else -pixels, 0)
            due = max(due + 1 / 60, time.monotonic())
            if due - begin > seconds:
                break
            time.sleep(max(due - time.monotonic(), 0))
        times = [frame["time"] for frame in self.page.evaluate("benchProbe.frames")]
        self.settled()
        return [b - a for a, b in zip(times, times[1:])]


class Ours(Page):
    idle = "document.querySelector('.timeline')?.dataset.busy === 'false'"

    def open(self, base, profile):
        """(milliseconds from the navigation to the first frame with events, to that with all of them)"""
        self.page.goto(f"{base}/#/profile/{profile}")
        self.page.wait_for_selector(".timeline")
        frames = self.settled(120000)["frames"]
        some = next(frame["time"] for frame in frames if frame["drawn"])
        return some, self.complete(frames)

    def complete(self, frames):
        """Here the page says whether data are missing."""
        found = None
        for frame in reversed(frames):
            if frame["busy"] or (frame["from"], frame["to"]) != (frames[-1]["from"], frames[-1]["to"]):
                break
            found = frame["time"]
        return found

    def area(self):
        box = self.page.locator("canvas.pointer").bounding_box()
        return box["x"], box["y"], box["width"], box["height"]

    def zoom(self, share_x, factor):
        self.move(share_x)
        self.page.mouse.wheel(0, math.log(factor) / 0.0016)

    def pan(self, share):
        self.page.mouse.wheel(share / 0.0009, 0)

    def key(self, name):
        self.page.keyboard.press(name)

    def range(self):
        return [float(n) for n in self.page.eval_on_selector(".timeline", "e => [e.dataset.from, e.dataset.to]")]

    def timed(self, act, condition, limit=60000):
        """Milliseconds from the last input of act until the condition (JavaScript) is true in a frame; None: never."""
        self.page.evaluate(f"benchProbe.arm(() => {condition}, {limit})")
        act()
        return self.page.evaluate("benchProbe.result()")
