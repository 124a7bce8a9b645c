"""The page as a person sees it: where times and tracks lie on the screen, and what colour is drawn there."""

import json

PLOT = "canvas.pointer"


class Viewer:
    def __init__(self, page, base):
        self.page = page
        self.base = base
        self.errors = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if "Content Security Policy" in message.text else None)

    def open(self, profile, **params):
        query = "&".join(f"{name}={value}" for name, value in params.items())
        self.page.goto(f"{self.base}/#/profile/{profile}" + (f"?{query}" if query else ""))
        self.page.wait_for_selector(".timeline")
        self.settle()

    def frames(self):
        """Until what is known now is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def settle(self):
        """Until all that is in sight is there and drawn."""
        self.page.wait_for_timeout(120)
        self.complete()

    def complete(self):
        script = """() => {
            const t = document.querySelector(".timeline");
            return t && t.dataset.busy === "false" && t.dataset.from !== undefined;
        }"""
        self.page.wait_for_function(script, timeout=30000)
        self.frames()

    def range(self):
        data = self.page.eval_on_selector(".timeline", "e => [e.dataset.from, e.dataset.to]")
        return float(data[0]), float(data[1])

    def drawn(self):
        data = self.page.eval_on_selector(".timeline", "e => [e.dataset.wide, e.dataset.narrow]")
        return int(data[0]), int(data[1])

    def plot(self):
        # A widget that was just added is what the page shows; the timeline stands at its top.
        self.page.evaluate("scrollTo(0, 0)")
        return self.page.locator(PLOT).bounding_box()

    def x(self, time):
        low, high = self.range()
        box = self.plot()
        return box["x"] + (time - low) / (high - low) * box["width"]

    def label(self, track):
        return self.page.locator(f"[data-track={json.dumps(track)}]")

    def show(self, track):
        """Scrolls the tracks until this one is in the middle of what is seen."""
        self.page.evaluate(
            """(id) => {
                scrollTo(0, 0);
                const label = document.querySelector(`[data-track=${JSON.stringify(id)}]`);
                const scroller = document.querySelector(".scroller");
                if (scroller.contains(label)) scroller.scrollTop = label.offsetTop - scroller.clientHeight / 2;
            }""",
            track,
        )
        self.frames()
        if self.page.locator(".timeline").count():
            self.complete()

    def y(self, track):
        self.show(track)
        box = self.label(track).bounding_box()
        return box["y"] + box["height"] / 2

    def hover(self, track, time):
        y = self.y(track)
        self.page.mouse.move(self.x(time) - 3, y)
        self.page.mouse.move(self.x(time), y)

    def click(self, track, time, **options):
        y = self.y(track)
        self.page.mouse.click(self.x(time), y, **options)

    def card(self):
        self.page.wait_for_selector(".hover-card")
        return self.page.locator(".hover-card").inner_text()

    def id_of(self, label):
        """The track of that name: its id is the server's affair."""
        named = self.page.locator(".label", has=self.page.get_by_text(label, exact=True))
        return named.first.get_attribute("data-track")

    def labels(self):
        return self.page.locator(".label .label-text").all_inner_texts()

    def colors(self, layer, track, time, reach=4):
        """Colours of a layer (0 events, 1 overlay) around a place, over the height of the track."""
        self.show(track)
        box = self.label(track).bounding_box()
        plot = self.plot()
        rect = [self.x(time) - plot["x"] - reach, box["y"] - plot["y"] - 2, 2 * reach + 1, box["height"] + 4]
        self.frames()
        return {
            tuple(color)
            for color in self.page.evaluate(
                """([layer, rect]) => {
                    const canvas = document.querySelectorAll(".plot canvas")[layer];
                    const ratio = canvas.width / canvas.clientWidth;
                    const [x, y, w, h] = rect.map((v) => Math.round(v * ratio));
                    const data = canvas.getContext("2d").getImageData(Math.max(x, 0), Math.max(y, 0), Math.max(w, 1), Math.max(h, 1)).data;
                    const seen = new Map();
                    for (let i = 0; i < data.length; i += 4)
                        if (data[i + 3] > 200) seen.set(data.slice(i, i + 3).join(), [data[i], data[i + 1], data[i + 2]]);
                    return [...seen.values()];
                }""",
                [layer, rect],
            )
        }

    def add_widget(self, title):
        self.page.get_by_role("button", name="Add Widget").click()
        self.page.get_by_role("menuitem", name=title).click()
        return self.widget(title)

    def widget(self, title):
        return self.page.get_by_role("region", name=title, exact=True)


def close_to(colors, wanted, within=12):
    value = int(wanted.lstrip("#"), 16)
    want = ((value >> 16) & 255, (value >> 8) & 255, value & 255)
    return any(all(abs(a - b) <= within for a, b in zip(color, want)) for color in colors)
