import { describe, expect, it } from "vitest";
import { decodePacked } from "../src/api/packed";
import type { Bands, Track } from "../src/api/types";
import { bandLanes, joined, lossesOf } from "../src/timeline/bands";
import { colorOf, DEPENDENCIES, hashName } from "../src/timeline/color";
import { eventData, lanesOf, rowsIn, seriesData } from "../src/timeline/data";
import {
  clamped,
  niceTop,
  padded,
  panned,
  rangeText,
  span,
  ticks,
  tickText,
  timeText,
  zoomed,
} from "../src/timeline/scale";
import {
  arranged,
  DEFAULT_SETTINGS,
  isHidden,
  layoutRows,
  moved,
  NO_PREFS,
  setHeight,
  setHidden,
  setPinned,
} from "../src/timeline/tracks";
import { pack } from "./pack";

const extent = { from: 0, to: 1_000_000 };

describe("scale", () => {
  it("zooms around a time that stays where it is", () => {
    const view = { from: 200_000, to: 600_000 };
    const near = zoomed(view, 300_000, 0.5, extent);
    expect(span(near)).toBeCloseTo(200_000);
    expect((300_000 - near.from) / span(near)).toBeCloseTo(0.25);
  });

  it("never leaves the profile, and never shows less than a few nanoseconds", () => {
    let view = padded(extent);
    for (let i = 0; i < 200; i++) view = zoomed(view, 123_456, 0.7, extent);
    expect(span(view)).toBe(10);
    for (let i = 0; i < 400; i++) view = zoomed(view, 999_999, 1.5, extent);
    expect(view).toEqual(padded(extent));
    expect(panned(view, 5, extent)).toEqual(padded(extent));
    expect(clamped({ from: -9e9, to: -8e9 }, extent).from).toBe(padded(extent).from);
  });

  it("pans by a share of what is seen", () => {
    expect(panned({ from: 1000, to: 2000 }, 0.1, extent)).toEqual({ from: 1100, to: 2100 });
    expect(panned({ from: 100_000, to: 200_000 }, 0.1, extent)).toEqual({ from: 110_000, to: 210_000 });
  });

  it("puts ticks at round times and tells them apart", () => {
    for (const length of [10, 137, 5000, 1e6, 1e9, 3.7e12]) {
      const { step, at } = ticks({ from: 12_345, to: 12_345 + length }, 1200);
      expect(at.length).toBeGreaterThan(3);
      expect(at.length).toBeLessThan(15);
      expect(at.every((t) => t % step === 0)).toBe(true);
      expect(new Set(at.map((t) => tickText(t, step, length))).size).toBe(at.length);
    }
  });

  it("writes times as people read them", () => {
    expect(timeText(0)).toBe("0 ns");
    expect(timeText(999)).toBe("999 ns");
    expect(timeText(1500)).toBe("1.5 µs");
    expect(timeText(12_345_678)).toBe("12.35 ms");
    expect(rangeText({ from: -20_000, to: 1_020_000 })).toBe("−0.02 – 1.02 ms");
    expect(rangeText({ from: 610_123_456, to: 610_123_556 })).toBe("610.123456 – 610.123556 ms");
    expect(rangeText({ from: 12, to: 999 })).toBe("12 – 999 ns");
    expect(rangeText({ from: 0, to: 3_600e9 })).toBe("0 – 3600 s");
    expect([0, 0.3, 7, 23, 100].map(niceTop)).toEqual([1, 0.5, 10, 25, 100]);
  });
});

describe("colours", () => {
  it("depend on the name alone", () => {
    expect(hashName("model/layer0/attention/dot")).toBe(hashName("model/layer0/attention/dot"));
    expect(colorOf("a")).toEqual(colorOf("a"));
    expect(
      new Set(["Query", "Key", "Value", "Scores", "Softmax", "Output"].map((n) => colorOf(n).join())).size,
    ).toBeGreaterThan(4);
  });

  it("of the legend are the seed's where it names them", () => {
    const names = new Map(DEPENDENCIES.map((d) => [d.kind, d]));
    expect(names.get("SAME_PSUM_BANK")!.name).toBe("Same PSUM Bank");
    expect(new Set(DEPENDENCIES.map((d) => d.color)).size).toBe(DEPENDENCIES.length);
  });
});

function track(id: string, more: Partial<Track> = {}): Track {
  const base = {
    group: "engine",
    kind: "instruction",
    engine: null,
    pcore: 0,
    table: "Instruction",
    dma: null,
    split: null,
  };
  return { id, label: id, ...base, form: "events", unit: null, parts: null, absent: null, ...more };
}

const tracks = [
  track("T", { split: "joined" }),
  track("T seq", { split: "sequencer" }),
  track("T comp", { split: "compute" }),
  track("TM"),
  track("E0", { group: "dma", dma: "engine" }),
  track("Q0", { group: "dma", dma: "aggregated" }),
  track("S1", { group: "semaphore", form: "series" }),
];

const ids = (rows: { track: Track }[]) => rows.map((row) => row.track.id);

describe("tracks", () => {
  it("follow the settings", () => {
    expect(ids(layoutRows(tracks, DEFAULT_SETTINGS, NO_PREFS).rest)).toEqual(["T", "TM", "E0"]);
    const other = { ...DEFAULT_SETTINGS, split: true, dma: "aggregated" as const };
    expect(ids(layoutRows(tracks, other, NO_PREFS).rest)).toEqual(["T seq", "T comp", "TM", "Q0"]);
  });

  it("are pinned, hidden, moved and resized", () => {
    let prefs = setPinned(NO_PREFS, "E0", true);
    prefs = setHidden(prefs, [tracks[3]!], true);
    prefs = setHeight(prefs, "T", 9999);
    const rows = layoutRows(tracks, DEFAULT_SETTINGS, prefs);
    expect(ids(rows.pinned)).toEqual(["E0"]);
    expect(ids(rows.rest)).toEqual(["T"]);
    expect(rows.rest[0]!.height).toBe(240);
    expect(isHidden(tracks[6]!, prefs)).toBe(true);
    expect(isHidden(tracks[6]!, setHidden(prefs, [tracks[6]!], false))).toBe(false);
    expect(ids(layoutRows(tracks, DEFAULT_SETTINGS, moved(NO_PREFS, tracks, "E0", "T")).rest)).toEqual([
      "E0",
      "T",
      "TM",
    ]);
    expect(ids(layoutRows(tracks, DEFAULT_SETTINGS, moved(NO_PREFS, tracks, "T", "TM")).rest)).toEqual([
      "TM",
      "T",
      "E0",
    ]);
  });

  it("are pinned as far as there is room", () => {
    const prefs = { ...NO_PREFS, pinned: ["E0", "T", "TM"] };
    const all = layoutRows(tracks, DEFAULT_SETTINGS, prefs);
    expect(ids(all.pinned)).toEqual(["E0", "T", "TM"]);
    const some = layoutRows(tracks, DEFAULT_SETTINGS, prefs, all.pinnedHeight - 1);
    expect([ids(some.pinned), ids(some.rest)]).toEqual([["E0", "T"], ["TM"]]);
    expect(some.pinnedHeight).toBe(some.pinned[1]!.y + some.pinned[1]!.height);
    expect(layoutRows(tracks, DEFAULT_SETTINGS, prefs, 0).pinnedHeight).toBe(0);
  });

  it("of another profile keep their natural neighbours", () => {
    const more = [...tracks.slice(0, 4), track("new"), ...tracks.slice(4)];
    const { order } = moved(NO_PREFS, tracks, "E0", "T");
    expect(arranged(more, order).map((t) => t.id)).toEqual(["E0", "T", "T seq", "T comp", "TM", "new", "Q0", "S1"]);
  });
});

describe("event data", () => {
  const start = [0, 10, 12, 40, 90];
  const end = [100, 11, 30, 45, 95];
  const columns = [
    { name: "id", type: "i64", values: [1, 2, 3, 4, 5] },
    { name: "start", type: "i64", values: start },
    { name: "end", type: "i64", values: end },
    { name: "label", type: "u32", values: [0, 0, 0, 0, 0] },
  ];
  const data = eventData(decodePacked(pack([{ id: "a", mode: "events", columns }])).tracks[0]!, [""]);

  it("finds every event that touches a window", () => {
    for (let from = -5; from < 110; from += 3) {
      for (const length of [0, 4, 50]) {
        const [first, last] = rowsIn(data, from, from + length);
        const found = [...start.keys()].slice(first, last).filter((i) => end[i]! >= from);
        expect(found).toEqual([...start.keys()].filter((i) => end[i]! >= from && start[i]! <= from + length));
      }
    }
  });

  it("gives overlapping events lanes of their own", () => {
    expect([...data.lane!]).toEqual([0, 1, 1, 1, 1]);
    expect(lanesOf(Float64Array.of(0, 5, 9), Float64Array.of(5, 9, 12))).toBeNull();
  });

  it("reads buckets and series", () => {
    const bucket = ["first", "last", "busy", "longest"].map((name) => ({ name, type: "i64", values: [7, 9] }));
    const buckets = eventData(decodePacked(pack([{ id: "b", mode: "buckets", columns: bucket }])).tracks[0]!, [""]);
    expect(buckets.exact).toBe(false);
    expect([...buckets.start]).toEqual([7, 9]);
    const samples = [
      { name: "column", type: "u32", values: [0, 5] },
      ...["min", "max", "last", "last.0"].map((name, i) => ({ name, type: "f64", values: [i, i + 1] })),
    ];
    const packed = decodePacked(
      pack([{ id: "s", mode: "series", columns: samples }], { from: 100, to: 200, width: 10 }),
    );
    const series = seriesData(packed.tracks[0]!, packed);
    expect([...series.at]).toEqual([100, 150]);
    expect(series.top).toBe(2);
    expect(series.parts[0]!.name).toBe("0");
  });
});

describe("bands", () => {
  const warning = (kind: string, from: number, to: number, details = kind) => ({
    kind,
    label: kind,
    start_ts: from,
    end_ts: to,
    count: 1,
    details,
    pcore_idx: 0,
  });
  const none: Bands = {
    warnings: [],
    losses: [],
    throttles: [],
    errors: [],
    regions: [],
    executions: [],
    truncated: [],
  };

  it("of one kind share a lane and are joined where they overlap", () => {
    const warnings = [
      warning("small_dma_transfers", 0, 10, "one"),
      warning("small_dma_transfers", 5, 20, "two"),
      warning("small_dma_transfers", 50, 60, "three"),
      warning("host_dma_not_captured", 0, 100),
    ];
    const lanes = bandLanes({ ...none, warnings }, 1);
    expect(lanes).toHaveLength(1);
    expect(lanes[0]!.tone).toBe("amber");
    expect(lanes[0]!.bands.map(({ from, to, details }) => [from, to, details.length])).toEqual([
      [0, 20, 2],
      [50, 60, 1],
    ]);
  });

  it("say how much they leave out", () => {
    const list = Array.from({ length: 9 }, (_, i) => ({
      from: 0,
      to: 9,
      label: "x",
      tone: "amber" as const,
      details: [`d${i}`],
    }));
    expect(joined(list)[0]!.details).toHaveLength(5);
    expect(joined(list)[0]!.details[4]).toContain("5 more");
  });

  it("of losses lie on the tracks that the ring feeds", () => {
    const loss = {
      stage: "device_ring",
      cause: "ring_full",
      lost_records: 3,
      lost_unknown: false,
      first_ts: 1,
      last_ts: 2,
    };
    const bands = {
      ...none,
      losses: [
        { ...loss, ring: "DMA-E1(nc0)" },
        { ...loss, ring: "INSTRUCTION(nc1)" },
      ],
    };
    expect(lossesOf(bands, "DMA-E1(nc0)", "dma", 0)).toHaveLength(1);
    expect(lossesOf(bands, "DMA-E1", "dma", 0)).toHaveLength(1);
    expect(lossesOf(bands, "DMA-E1 qSyncIO0(nc0)", "dma", 0)).toHaveLength(1);
    expect(lossesOf(bands, "DMA-E11(nc0)", "dma", 0)).toHaveLength(0);
    expect(lossesOf(bands, "DMA-E1(nc1)", "dma", 1)).toHaveLength(0);
    expect(lossesOf(bands, "Tensor(nc1)", "engine", 1)).toHaveLength(1);
    expect(lossesOf(bands, "Tensor(nc0)", "engine", 0)).toHaveLength(0);
  });
});
