// Runs in a viewer's page before its own scripts: notes when it has drawn on a canvas, and what came before.
(() => {
  const probe = { frames: [], answers: [], input: 0, last: 0, armed: null };
  window.benchProbe = probe;
  const channel = new MessageChannel();
  let drawn = false;

  /** What our own timeline says about what it has drawn; other viewers have no such element. */
  function state() {
    const timeline = document.querySelector(".timeline");
    const { busy, from, to, wide, narrow } = timeline?.dataset ?? {};
    return { time: performance.now(), busy: busy !== "false", from, to, drawn: Number(wide ?? 0) + Number(narrow ?? 0) };
  }
  // The task behind the frame in which something was drawn.
  channel.port1.onmessage = () => {
    drawn = false;
    const frame = state();
    probe.last = frame.time;
    probe.frames.push(frame);
  };
  function wrap(type, names) {
    for (const name of names) {
      const inner = type?.prototype[name];
      if (!inner) continue;
      type.prototype[name] = function (...args) {
        if (!drawn) {
          drawn = true;
          channel.port2.postMessage(0);
        }
        return inner.apply(this, args);
      };
    }
  }
  wrap(window.CanvasRenderingContext2D, ["clearRect"]);
  for (const type of [window.WebGLRenderingContext, window.WebGL2RenderingContext])
    wrap(type, ["clear", "drawArrays", "drawElements", "drawArraysInstanced", "drawElementsInstanced"]);
  for (const name of ["wheel", "keydown", "pointerup", "click", "change"])
    addEventListener(name, (event) => { probe.input = event.timeStamp; }, { capture: true, passive: true });

  const json = Response.prototype.json;
  Response.prototype.json = async function () {
    const value = await json.call(this);
    probe.answers.push(new URL(this.url).pathname.split("/").pop());
    return value;
  };

  const task = () => new Promise((resolve) => setTimeout(resolve, 5));
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));

  probe.begin = () => {
    probe.frames = [];
    probe.answers = [];
    probe.input = 0;
    probe.last = 0;
  };
  /** Until nothing was drawn for so many milliseconds and the viewer says that it is idle. */
  probe.settled = async (idle, quiet, limit) => {
    const begin = performance.now();
    let ok = false;
    while (!ok && performance.now() - begin < limit) {
      await task();
      ok = !drawn && idle() && performance.now() - Math.max(probe.last, probe.input, begin) > quiet;
    }
    return { ok, input: probe.input, frames: probe.frames };
  };
  /** Watches for a condition from now on; `result` has the milliseconds from the last input until it was seen, or null. */
  probe.arm = (condition, limit) => {
    probe.begin();
    const begin = performance.now();
    probe.armed = (async () => {
      while (performance.now() - begin < limit) {
        await frame();
        if (probe.input && condition()) return performance.now() - probe.input;
      }
      return null;
    })();
  };
  probe.result = () => probe.armed;
})();
