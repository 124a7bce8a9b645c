import { expect, test } from "vitest";
import type { Column, Packed, PackedTrack } from "../src/api/packed";
import type { ProfileApi } from "../src/api/profile";
import type { Track } from "../src/api/types";
import { endOf } from "../src/timeline/ends";
import { DEFAULT_SETTINGS } from "../src/timeline/tracks";

const TRACK = { id: "instruction:Sync", table: "Instruction", form: "events" } as Track;

/** A server with these starts (each event lasts 5, but the first lasts 1000), which gives exact events up to `most` of them. */
function server(starts: number[], most: number) {
  const asked: { from: number; to: number }[] = [];
  const events = starts.map((start, id) => ({ id, start, end: start + (id === 0 ? 1000 : 5) }));
  const timeline: ProfileApi["timeline"] = async ({ from, to, width }) => {
    asked.push({ from, to });
    const inside = events.filter((event) => event.start <= to && event.end >= from);
    const column = (values: number[]): Column => Float64Array.from(values);
    const track = (mode: string, bucketNs: number, columns: [string, number[]][]): Packed => {
      const list = new Map(columns.map(([name, values]) => [name, column(values)]));
      const one: PackedTrack = { id: TRACK.id, mode, n: columns[0]![1].length, bucketNs, columns: list };
      return { from, to, width, dict: [""], tracks: [one] };
    };
    if (inside.length <= most)
      return track("events", 0, [
        ["id", inside.map((event) => event.id)],
        ["start", inside.map((event) => event.start)],
        ["end", inside.map((event) => event.end)],
      ]);
    const wide = 2 ** Math.floor(Math.log2(Math.max((to - from) / width, 1)));
    const buckets = [...new Set(inside.map((event) => Math.floor(event.start / wide) * wide))];
    return track("buckets", wide, [
      ["start", buckets],
      ["first", buckets.map((at) => inside.find((event) => event.start >= at)!.start)],
    ]);
  };
  return { api: { timeline }, asked };
}

const RANGE = { from: 0, to: 10_000_000 };
const ask = (api: Pick<ProfileApi, "timeline">, last: boolean, range = RANGE, track = TRACK) =>
  endOf(api, track, DEFAULT_SETTINGS, range, last, new AbortController().signal);

test("the ends of few events come with one question", async () => {
  const { api, asked } = server([100, 2000, 9_000_000], 10);
  expect(await ask(api, false)).toEqual({
    table: "Instruction",
    id: 0,
    start_ts: 100,
    end_ts: 1100,
    track: "instruction:Sync",
  });
  expect((await ask(api, true))?.id).toBe(2);
  expect(asked).toHaveLength(2);
});

test("the ends of many are found by narrowing", async () => {
  const starts = Array.from({ length: 20_000 }, (_, i) => 77 + i * 90);
  const { api, asked } = server(starts, 8);
  expect((await ask(api, false))?.id).toBe(0);
  expect((await ask(api, true))?.id).toBe(19_999);
  expect(asked.length).toBeLessThan(12);
});

test("from a time on, what lasts into it is not the first", async () => {
  const { api } = server([100, 2000, 3000], 10);
  expect((await ask(api, false, { from: 500, to: RANGE.to }))?.id).toBe(1);
  expect(await ask(api, false, { from: 3001, to: RANGE.to })).toBeNull();
});

test("an empty track, a plot, and one without a table have none", async () => {
  const { api } = server([], 10);
  expect(await ask(api, false)).toBeNull();
  expect(await ask(api, false, RANGE, { ...TRACK, form: "series" })).toBeNull();
  expect(await ask(api, false, RANGE, { ...TRACK, table: null })).toBeNull();
});
