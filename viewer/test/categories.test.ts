import { expect, test } from "vitest";
import { sectionsOf } from "../src/widgets/summary/categories";

const engine = (name: string, pcore: number, active: number) => ({
  engine: name,
  pcore,
  active_percent: active,
  instructions: 5,
});

const answer = {
  from: 0,
  to: 1000,
  duration_ns: 1000,
  instructions: 20,
  flops: { hardware_flops: 10, mfu_percent: 4, hfu_percent: null },
  engines: [engine("Vector", 0, 30), engine("Tensor", 0, 20), engine("Tensor", 1, 10), engine("Odd", 0, 1)],
  opcodes: [
    { engine: "Tensor", opcode: "MATMUL", instructions: 3 },
    { engine: "Vector", opcode: "COPY", instructions: 2 },
  ],
  dma: { packets: 7, packet_bytes: 2048, bytes_per_second: 1e9, active_percent: 12 },
  queues: [{ queue: "q", transfers: 2 }],
  host_dma: {},
  collectives: [],
  waits: [
    { dependency_type: "SEMAPHORE", wait_ns: 10 },
    { dependency_type: "DMA_WAIT", wait_ns: 50 },
  ],
  throttling: [{ type: "activity_0", time_ns: 30 }],
  errors: 1,
  something_new: { a: 1 },
};

const titles = (value: Record<string, unknown>) => sectionsOf(value).map(({ title }) => title);

test("categories come in their order, those without figures not at all, and unknown ones at the end", () => {
  expect(titles(answer)).toEqual([
    "Overview",
    "Compute",
    "NeuronCore engines",
    "Tensor engine",
    "Vector engine",
    "Odd engine",
    "DMA",
    "Waits by cause",
    "Throttling and errors",
    "Further figures",
  ]);
});

test("an engine has the rows of its cores and its own opcodes", () => {
  const tensor = sectionsOf(answer).find(({ id }) => id === "engine.Tensor");
  expect(tensor?.headline).toBe("active 20 %, 10 %");
  expect(tensor?.tables.map(({ rows }) => rows.length)).toEqual([2, 1]);
  expect(tensor?.tables[1]?.rows).toEqual([{ opcode: "MATMUL", instructions: 3 }]);
});

test("headlines tell what one looks for", () => {
  const headlines = Object.fromEntries(sectionsOf(answer).map(({ id, headline }) => [id, headline]));
  expect(headlines.compute).toBe("4 % MFU");
  expect(headlines.engines).toBe("Vector is the busiest, 30 %");
  expect(headlines.dma).toContain("12 % active");
  expect(headlines.waits).toBe("60 ns, most of it DMA_WAIT");
  expect(headlines.throttling).toBe("throttled 30 ns, 1 error");
});

test("a box has its tracks, and an empty answer nothing", () => {
  expect(titles({ from: 0, to: 5, events: 3, tracks: [{ track: "Tensor", events: 3 }] })).toEqual([
    "Overview",
    "Tracks of the box",
  ]);
  expect(titles({})).toEqual([]);
});

test("tracks of a box stand in the order of their numbers", () => {
  const tracks = ["DMA-E10(nc0)", "DMA-E4(nc0)", "Activation"].map((track) => ({ track }));
  const shown = sectionsOf({ tracks }).find((section) => section.id === "tracks")!.tables[0]!;
  expect(shown.rows.map((row) => row.track)).toEqual(["Activation", "DMA-E4(nc0)", "DMA-E10(nc0)"]);
});
