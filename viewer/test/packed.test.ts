import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { decodePacked, PackedError } from "../src/api/packed";
import { pack } from "./pack";

describe("decodePacked", () => {
  it("reads every type, and whole numbers beyond 32 bits and below zero", () => {
    const times = [0, -1, 4294967296, 9007199254740991, -9007199254740991];
    const columns = [
      { name: "start", type: "i64", values: times },
      { name: "value", type: "f64", values: [0.5, 1, 2, 3, -4] },
      { name: "label", type: "u32", values: [0, 1, 4294967295, 3, 4] },
      { name: "flag", type: "u8", values: [0, 1, 255, 3, 4] },
    ];
    const packed = decodePacked(
      pack([{ id: "a", mode: "events", columns }], { from: 5, to: 9, width: 2, dict: ["", "x"] }),
    );
    const track = packed.tracks[0]!;
    expect(packed).toMatchObject({ from: 5, to: 9, width: 2, dict: ["", "x"] });
    expect(track.n).toBe(5);
    expect([...track.columns.get("start")!]).toEqual(times);
    expect([...track.columns.get("value")!]).toEqual([0.5, 1, 2, 3, -4]);
    expect([...track.columns.get("label")!]).toEqual([0, 1, 4294967295, 3, 4]);
    expect([...track.columns.get("flag")!]).toEqual([0, 1, 255, 3, 4]);
  });

  it("skips columns of types that it does not know", () => {
    const columns = [
      { name: "id", type: "i64", values: [7] },
      { name: "later", type: "f16", values: [] },
    ];
    const track = decodePacked(pack([{ id: "a", mode: "events", columns }])).tracks[0]!;
    expect([...track.columns.keys()]).toEqual(["id"]);
  });

  it("refuses what is no packed answer, and what is cut off", () => {
    const whole = pack([{ id: "a", mode: "events", columns: [{ name: "id", type: "i64", values: [1, 2, 3] }] }]);
    expect(() => decodePacked(new ArrayBuffer(4))).toThrow(PackedError);
    expect(() => decodePacked(new TextEncoder().encode('{"error":{}}').buffer as ArrayBuffer)).toThrow("KYB1");
    expect(() => decodePacked(whole.slice(0, whole.byteLength - 1))).toThrow("outside the answer");
    expect(() => decodePacked(whole.slice(0, 20))).toThrow("ends in its head");
  });

  it("reads the golden file, which the server's own tests write", () => {
    const bytes = readFileSync(new URL("../../tests/golden/packed/answer.kyb", import.meta.url));
    const packed = decodePacked(Uint8Array.from(bytes).buffer);
    expect(packed).toMatchObject({ from: -5, to: 1000000, width: 1600 });
    expect(packed.dict.slice(0, 3)).toEqual(["", "MATMUL", "LDWEIGHTS"]);
    expect(packed.tracks.map((track) => [track.mode, track.n, track.bucketNs])).toEqual([
      ["events", 3, 0],
      ["buckets", 1, 65536],
      ["events", 1, 0],
    ]);
    expect([...packed.tracks[0]!.columns.keys()]).toEqual(["id", "label", "share", "flag"]);
  });
});
