// Packs by the drawing in SERVE.md, without the reader's code.

type Values = { name: string; type: string; values: (number | bigint)[] };

const SIZE: Record<string, number> = { i64: 8, f64: 8, u32: 4, u8: 1 };

function put(view: DataView, at: number, type: string, value: number | bigint): void {
  if (type === "i64") view.setBigInt64(at, BigInt(value), true);
  else if (type === "f64") view.setFloat64(at, Number(value), true);
  else if (type === "u32") view.setUint32(at, Number(value), true);
  else view.setUint8(at, Number(value));
}

export function pack(tracks: { id: string; mode: string; columns: Values[] }[], more: object = {}): ArrayBuffer {
  let size = 0;
  const heads = tracks.map(({ id, mode, columns }) => ({
    id,
    mode,
    n: columns[0]?.values.length ?? 0,
    columns: columns.map(({ name, type, values }) => {
      size = (size + 7) & ~7;
      const offset = size;
      size += values.length * (SIZE[type] ?? 8);
      return { name, type, offset };
    }),
  }));
  const head = new TextEncoder().encode(JSON.stringify({ version: 1, dict: [""], ...more, tracks: heads }));
  const data = (8 + head.length + 7) & ~7;
  const buffer = new ArrayBuffer(data + size);
  const view = new DataView(buffer);
  new Uint8Array(buffer).set(new TextEncoder().encode("KYB1"));
  view.setUint32(4, head.length, true);
  new Uint8Array(buffer).set(head, 8);
  tracks.forEach((track, t) => {
    track.columns.forEach((column, c) => {
      const at = data + heads[t]!.columns[c]!.offset;
      column.values.forEach((value, i) => {
        put(view, at + i * (SIZE[column.type] ?? 8), column.type, value);
      });
    });
  });
  return buffer;
}
