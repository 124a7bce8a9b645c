import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { decodePacked, type Packed } from "../src/api/packed";
import type { ProfileApi, WindowQuery } from "../src/api/profile";
import { type EventData, type ShownTrack, TimelineData } from "../src/timeline/data";
import { piecesOf } from "../src/timeline/draw_events";
import { DEFAULT_SETTINGS } from "../src/timeline/tracks";
import { best, kept, lacking, serves, type Window, widened } from "../src/timeline/windows";
import { pack } from "./pack";

const EVERYTHING = { from: 0, to: 1_000_000 };

function window(from: number, to: number, nsPerPixel: number, tracks: string[] | null = null): Window {
  return { from, to, nsPerPixel, exact: false, tracks: tracks && new Set(tracks) };
}

describe("windows", () => {
  const sight = { view: { from: 100, to: 200 }, nsPerPixel: 1 };

  it("are asked again only for what they do not show well enough", () => {
    const there = window(0, 1000, 1);
    expect(serves(there, { from: 100, to: 200 }, 1)).toBe(true);
    expect(serves(there, { from: 100, to: 1200 }, 1)).toBe(false);
    expect(serves(there, { from: 100, to: 200 }, 0.5)).toBe(false);
    expect(serves({ ...there, exact: true }, { from: 100, to: 200 }, 0.01)).toBe(true);
    expect(serves(there, { from: 100, to: 200 }, 20)).toBe(false);
  });

  it("of some tracks say nothing of others", () => {
    expect(lacking([window(90, 210, 1, ["a"]), window(150, 300, 1)], ["a", "b"], sight)).toEqual(["b"]);
    expect(lacking([window(90, 210, 1)], ["a", "b"], sight)).toEqual([]);
  });

  it("are drawn by how well they show the view", () => {
    const [coarse, fine, other] = [window(0, 900, 9), window(99, 201, 1), window(500, 600, 1)];
    expect(best([other, coarse, fine], sight)).toBe(fine);
    expect(best([other, coarse], sight)).toBe(coarse);
    expect(best([other], sight)).toBe(other);
    expect(best([], sight)).toBeNull();
  });

  it("stay while they serve, and the last with all tracks for those out of sight", () => {
    const [old, whole, near] = [window(0, 50, 1, ["a"]), window(0, 900, 9), window(90, 210, 1, ["a"])];
    expect(kept([old, whole], near, true, sight)).toEqual([near, whole]);
    const wide = window(50, 250, 1);
    expect(kept([near, whole], wide, false, sight)).toEqual([near, wide]);
    expect(kept([near, wide], window(90, 210, 1, ["b"]), true, sight).slice(1)).toEqual([near, wide]);
  });

  it("end at the profile's bounds, but hold the view", () => {
    expect(widened({ from: 100.5, to: 200.5 }, 0.5, 0.25, EVERYTHING)).toEqual({ from: 50, to: 226 });
    expect(widened({ from: 10, to: 110 }, 0.5, 0.5, EVERYTHING)).toEqual({ from: 0, to: 160 });
    expect(widened({ from: -5, to: 95 }, 0.5, 0.5, EVERYTHING)).toEqual({ from: -5, to: 145 });
  });
});

describe("what is drawn of a track", () => {
  const view = { from: 100, to: 200 };
  const [base, data] = ["base", "data"] as unknown as EventData[];
  const found = (from: number, to: number) => ({ data: data!, range: { from, to } });

  it("is its window alone, where that holds the view or nothing else is known", () => {
    expect(piecesOf(view, found(90, 210), base!)).toEqual([{ ...view, data }]);
    expect(piecesOf(view, found(150, 160), null)).toEqual([{ ...view, data }]);
    expect(piecesOf(view, null, null)).toEqual([]);
  });

  it("is else what is known of the whole profile, beside the window", () => {
    expect(piecesOf(view, null, base!)).toEqual([{ ...view, data: base }]);
    expect(piecesOf(view, found(300, 400), base!)).toEqual([{ ...view, data: base }]);
    expect(piecesOf(view, found(50, 130), base!)).toEqual([
      { from: 130, to: 200, data: base },
      { from: 100, to: 130, data },
    ]);
    expect(piecesOf(view, found(120, 130), base!)).toHaveLength(3);
  });
});

interface Question extends WindowQuery {
  answer(): Promise<void>;
  fail(): Promise<void>;
  signal: AbortSignal;
}

/** A server that answers when told to, with one bucket for each track. */
function server(ids: string[]) {
  const asked: Question[] = [];
  const timeline = (ask: WindowQuery, signal: AbortSignal) =>
    new Promise<Packed>((resolve, reject) => {
      const columns = ["first", "last"].map((name, i) => ({ name, type: "i64", values: [ask.from + i] }));
      const tracks = (ask.tracks ?? ids).map((id) => ({ id, mode: "buckets", columns }));
      const settled = async (done: () => void) => {
        done();
        await vi.advanceTimersByTimeAsync(0);
      };
      asked.push({
        ...ask,
        signal,
        answer: () => settled(() => resolve(decodePacked(pack(tracks, ask)))),
        fail: () => settled(() => reject(new Error("broken"))),
      });
    });
  return { asked, api: { timeline } as unknown as ProfileApi };
}

describe("what the timeline asks for", () => {
  const ids = ["a", "b", "c"];
  const tracks: ShownTrack[] = ids.map((id) => ({ id, group: "dma", form: "events" }));
  const view = { from: 400_000, to: 500_000 };
  const changed = vi.fn();
  const failed = vi.fn();

  function begin() {
    const { asked, api } = server(ids);
    const data = new TimelineData(api, EVERYTHING, changed, failed);
    data.configure(tracks, DEFAULT_SETTINGS);
    const look = (from: number, to: number, shown = ["a", "b"]) => {
      data.look({ from, to }, 1000, shown);
      data.need(DEFAULT_SETTINGS);
    };
    return { asked, data, look };
  }

  /** The view's own window and, after a rest, its surroundings. */
  async function rested() {
    const all = begin();
    all.look(view.from, view.to);
    await all.asked[0]!.answer();
    await vi.advanceTimersByTimeAsync(1000);
    await all.asked[1]!.answer();
    return all;
  }

  beforeEach(() => {
    vi.useFakeTimers();
    changed.mockClear();
    failed.mockClear();
  });
  afterEach(() => vi.useRealTimers());

  it("is first the view of the tracks in sight, then all around it, without a new frame", async () => {
    const { asked, data, look } = begin();
    look(view.from, view.to);
    expect(data.busy).toBe(true);
    expect(asked).toHaveLength(1);
    expect(asked[0]!.tracks).toEqual(["a", "b"]);
    expect(asked[0]!.to - asked[0]!.from).toBeLessThan(120_000);
    await asked[0]!.answer();
    expect(data.busy).toBe(false);
    expect(changed).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1000);
    expect(asked).toHaveLength(2);
    expect(asked[1]).toMatchObject({ from: 350_000, to: 550_000, width: 2000, groups: ["dma"] });
    expect(asked[1]!.tracks).toBeUndefined();
    await asked[1]!.answer();
    expect(changed).toHaveBeenCalledTimes(1);
    expect(data.eventsOf("c")!.range).toMatchObject({ from: 350_000 });
    expect(data.eventsOf("a")!.range.from).toBeGreaterThan(390_000);
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toHaveLength(2);
  });

  it("is nothing for a pan into the surroundings or a scroll to other tracks, once these are there", async () => {
    const { asked, data, look } = await rested();
    look(440_000, 540_000);
    look(440_000, 540_000, ["c"]);
    expect(data.busy).toBe(false);
    expect(asked).toHaveLength(2);
  });

  it("is what a scroll brings into sight before that", async () => {
    const { asked, data, look } = begin();
    look(view.from, view.to);
    await asked[0]!.answer();
    look(view.from, view.to, ["b", "c"]);
    expect(data.busy).toBe(true);
    expect(asked[1]!.tracks).toEqual(["c"]);
    await asked[1]!.answer();
    expect(data.busy).toBe(false);
  });

  it("is given up when the view needs something else, also what was asked for a rest", async () => {
    const { asked, data, look } = begin();
    look(view.from, view.to);
    look(100_000, 110_000);
    expect(asked[0]!.signal.aborted).toBe(true);
    await asked[1]!.answer();
    await vi.advanceTimersByTimeAsync(1000);
    look(700_000, 710_000);
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, false, true, false]);
    expect(data.busy).toBe(true);
  });

  it("reaches ahead of a view that moves on and on", async () => {
    const { asked, look } = begin();
    for (let i = 0; i <= 10; i++) {
      look(400_000 + i * 10_000, 500_000 + i * 10_000);
      await asked.at(-1)!.answer();
      await vi.advanceTimersByTimeAsync(16);
    }
    expect(asked.length).toBeLessThan(7);
    const last = asked.at(-1)!;
    expect(last.to - last.from).toBeGreaterThan(150_000);
  });

  it("is said to have failed, and asked again with the next view", async () => {
    const { asked, data, look } = begin();
    look(view.from, view.to);
    await asked[0]!.fail();
    expect(failed).toHaveBeenLastCalledWith("broken");
    expect(data.busy).toBe(false);
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked).toHaveLength(1);
    look(view.from, view.to);
    expect(data.busy).toBe(true);
    await asked[1]!.answer();
    expect(failed).toHaveBeenLastCalledWith(null);
  });

  it("does not trouble anyone when the surroundings fail, unless they are looked at", async () => {
    const { asked, data, look } = begin();
    look(view.from, view.to);
    await asked[0]!.answer();
    await vi.advanceTimersByTimeAsync(1000);
    look(view.from, view.to, ["c"]);
    expect(asked).toHaveLength(2);
    expect(data.busy).toBe(true);
    await asked[1]!.fail();
    expect(failed).not.toHaveBeenCalledWith("broken");
    expect(asked[2]!.tracks).toEqual(["c"]);
    await asked[2]!.answer();
    expect(data.busy).toBe(false);
  });

  it("is all anew with other settings, and what is there is drawn until that comes", async () => {
    const { asked, data } = await rested();
    const settings = { ...DEFAULT_SETTINGS, dma: "queue" as const };
    data.configure(tracks, settings);
    expect(data.busy).toBe(true);
    expect(data.eventsOf("a")).not.toBeNull();
    data.need(settings);
    expect(asked.at(-1)).toMatchObject({ dma: "queue", tracks: ["a", "b"] });
    await asked.at(-1)!.answer();
    expect(data.busy).toBe(false);
  });
});
