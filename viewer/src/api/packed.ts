// Reader of packed answers ("KYB1", collector/query/SERVE.md): a JSON head, then little-endian columns on multiples of 8.

export type Column = Float64Array | Uint32Array | Uint8Array;

export interface PackedTrack {
  id: string;
  mode: string;
  n: number;
  bucketNs: number;
  columns: Map<string, Column>;
}

export interface Packed {
  from: number;
  to: number;
  width: number;
  dict: string[];
  tracks: PackedTrack[];
}

export class PackedError extends Error {}

interface Head {
  from?: number;
  to?: number;
  width?: number;
  dict?: string[];
  tracks?: {
    id: string;
    mode: string;
    n: number;
    bucket_ns?: number;
    columns: { name: string; type: string; offset: number }[];
  }[];
}

const SIZES: Record<string, number> = { i64: 8, f64: 8, u32: 4, u8: 1 };

// Whole numbers up to 2^53 (104 days of nanoseconds) are exact as doubles; two 32-bit loads are many times faster than BigInt.
function readI64(buffer: ArrayBuffer, at: number, n: number): Float64Array {
  const low = new Uint32Array(buffer, at, n * 2);
  const high = new Int32Array(buffer, at, n * 2);
  const out = new Float64Array(n);
  for (let i = 0; i < n; i++) out[i] = high[2 * i + 1]! * 4294967296 + low[2 * i]!;
  return out;
}

function readColumn(buffer: ArrayBuffer, type: string, at: number, n: number): Column {
  switch (type) {
    case "i64":
      return readI64(buffer, at, n);
    case "f64":
      return new Float64Array(buffer, at, n);
    case "u32":
      return new Uint32Array(buffer, at, n);
    default:
      return new Uint8Array(buffer, at, n);
  }
}

function readHead(buffer: ArrayBuffer): { head: Head; data: number } {
  if (buffer.byteLength < 8) throw new PackedError(`an answer of ${buffer.byteLength} bytes is too short`);
  const view = new DataView(buffer);
  if (view.getUint32(0, false) !== 0x4b594231) throw new PackedError("the answer does not begin with KYB1");
  const length = view.getUint32(4, true);
  if (8 + length > buffer.byteLength) throw new PackedError("the answer ends in its head");
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as Head;
  return { head, data: (8 + length + 7) & ~7 };
}

export function decodePacked(buffer: ArrayBuffer): Packed {
  const { head, data } = readHead(buffer);
  const tracks = (head.tracks ?? []).map((track) => {
    const columns = new Map<string, Column>();
    for (const { name, type, offset } of track.columns) {
      const size = SIZES[type];
      if (size === undefined) continue; // of a later version
      const at = data + offset;
      if (at % size !== 0 || at + size * track.n > buffer.byteLength)
        throw new PackedError(`column ${name} of ${track.id} lies outside the answer`);
      columns.set(name, readColumn(buffer, type, at, track.n));
    }
    return { id: track.id, mode: track.mode, n: track.n, bucketNs: track.bucket_ns ?? 0, columns };
  });
  return { from: head.from ?? 0, to: head.to ?? 0, width: head.width ?? 0, dict: head.dict ?? [""], tracks };
}
