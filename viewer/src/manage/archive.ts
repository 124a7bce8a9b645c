// Source texts that come as an archive, .tar.gz, .tgz or .tar: read in the page, so that one sees before the upload what is in it.
// Whoever made it may mean ill: what it unfolds to has limits, and no path leads out of it.

import type { Picked } from "./gather";

export interface ArchiveLimits {
  bytes: number;
  files: number;
}

export const LIMITS: ArchiveLimits = { bytes: 256 << 20, files: 4095 };

const BLOCK = 512;
const NAME_MAX = 4096; // of a name that stands in a record of its own
const ENDING = /\.(tar\.gz|tgz|tar)$/i;
const text = new TextDecoder();

export function isArchive(name: string): boolean {
  return ENDING.test(name);
}

class BadArchive extends Error {}

/** The bytes of a stream in the amounts that are asked for; no more of them than the limit. */
class Bytes {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private rest = new Uint8Array(0);
  private taken = 0;

  constructor(
    stream: ReadableStream<Uint8Array>,
    private readonly most: number,
  ) {
    this.reader = stream.getReader();
  }

  close(): void {
    void this.reader.cancel().catch(() => undefined);
  }

  /** Hands them on part by part; false: it ended before. */
  private async each(count: number, use: (part: Uint8Array) => void): Promise<boolean> {
    this.taken += count;
    if (this.taken > this.most)
      throw new BadArchive(`it unfolds to more than ${Math.round(this.most / (1 << 20))} MiB`);
    for (let left = count; left > 0; ) {
      if (this.rest.length === 0) {
        const { value, done } = await this.reader.read();
        if (done) return false;
        this.rest = new Uint8Array(value);
      }
      const part = this.rest.subarray(0, left);
      use(part);
      this.rest = this.rest.subarray(part.length);
      left -= part.length;
    }
    return true;
  }

  async take(count: number): Promise<Uint8Array<ArrayBuffer> | null> {
    // As they come: a header's word alone makes no room.
    const parts: Uint8Array[] = [];
    if (!(await this.each(count, (part) => parts.push(part.slice())))) return null;
    const all = new Uint8Array(count);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  skip(count: number): Promise<boolean> {
    return this.each(count, () => undefined);
  }
}

interface Header {
  path: string;
  size: number;
  type: string;
}

function field(block: Uint8Array, from: number, length: number): string {
  const part = block.subarray(from, from + length);
  const end = part.indexOf(0);
  return text.decode(end < 0 ? part : part.subarray(0, end));
}

function octal(block: Uint8Array, from: number, length: number): number {
  const digits = field(block, from, length).trim();
  if (!/^[0-7]+$/.test(digits)) throw new BadArchive("it is damaged: a size that is none");
  return Number.parseInt(digits, 8);
}

function headerOf(block: Uint8Array): Header {
  let sum = 0;
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 32 : block[i]!;
  if (sum !== octal(block, 148, 8)) throw new BadArchive("it is no tar archive, or damaged");
  const prefix = field(block, 257, 6) === "ustar" ? field(block, 345, 155) : "";
  const name = field(block, 0, 100);
  const type = String.fromCharCode(block[156]!);
  return { path: prefix ? `${prefix}/${name}` : name, size: octal(block, 124, 12), type };
}

/** The path in records of "length key=value". */
function pathOf(records: string): string | null {
  return /(?:^|\n)\d+ path=([^\n]*)/.exec(records)?.[1] ?? null;
}

function isSafe(path: string): boolean {
  if (path === "" || /^([/\\]|[a-z]:)/i.test(path) || path.includes("\\")) return false;
  return path.split("/").every((part) => part !== ".." && ![...part].some((c) => c < " "));
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

async function skipped(bytes: Bytes, count: number): Promise<void> {
  if (!(await bytes.skip(count))) throw new BadArchive("it ends too soon");
}

/** The name of the next entry, from a record of its own; null: the record says none. */
async function longName(bytes: Bytes, { type, size }: Header): Promise<string | null> {
  if (size > NAME_MAX) throw new BadArchive("it is damaged: a name that is too long");
  const record = await bytes.take(size);
  await skipped(bytes, padding(size));
  if (!record) throw new BadArchive("it ends too soon");
  return type === "L" ? field(record, 0, size) : pathOf(text.decode(record));
}

/** The header of the next file; folders make themselves, links and devices are no texts. */
async function nextFile(bytes: Bytes): Promise<Header | null> {
  let long: string | null = null;
  for (;;) {
    const block = await bytes.take(BLOCK);
    if (!block || block.every((byte) => byte === 0)) return null;
    const header = headerOf(block);
    if (header.type === "L" || header.type === "x") {
      long = (await longName(bytes, header)) ?? long;
      continue;
    }
    if (["0", "\0", "7"].includes(header.type))
      return { ...header, path: (long ?? header.path).replace(/^(\.\/)+/, "") };
    await skipped(bytes, header.size + padding(header.size));
    long = null;
  }
}

async function unfold(bytes: Bytes, limits: ArchiveLimits): Promise<Picked[]> {
  const found: Picked[] = [];
  for (let next = await nextFile(bytes); next; next = await nextFile(bytes)) {
    const { path, size } = next;
    if (!isSafe(path)) throw new BadArchive(`a path leads out of it: ${path.slice(0, 100)}`);
    if (found.length === limits.files) throw new BadArchive(`it has more than ${limits.files} files`);
    const data = await bytes.take(size);
    if (!data) throw new BadArchive(`it ends in the middle of ${path}`);
    await skipped(bytes, padding(size));
    found.push({ file: new File([data], path.slice(path.lastIndexOf("/") + 1)), path, source: true });
  }
  return found;
}

/** The files of an archive. Throws an Error with its name and what is wrong, and then none of its files is taken. */
export async function unpacked(file: File, limits = LIMITS): Promise<Picked[]> {
  const packed = !/\.tar$/i.test(file.name);
  // TypeScript's streams know of no bytes but those that a DecompressionStream takes.
  const unzip = new DecompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>;
  const bytes = new Bytes(packed ? file.stream().pipeThrough(unzip) : file.stream(), limits.bytes);
  try {
    const found = await unfold(bytes, limits);
    if (found.length === 0) throw new BadArchive("there is no file in it");
    return found;
  } catch (error) {
    // Each browser has other words for what it cannot unpack.
    const why = error instanceof BadArchive ? error.message : "it is no gzip file, or damaged";
    throw new Error(`${file.name}: ${why}.`);
  } finally {
    bytes.close();
  }
}

/** Picked files with archives of source texts replaced by what is in them; what could not be read, beside them. */
export async function opened(files: Picked[], limits = LIMITS): Promise<{ files: Picked[]; troubles: string[] }> {
  const out: Picked[] = [];
  const troubles: string[] = [];
  for (const one of files) {
    if (!one.source || !isArchive(one.file.name)) {
      out.push(one);
      continue;
    }
    try {
      out.push(...(await unpacked(one.file, limits)));
    } catch (error) {
      troubles.push((error as Error).message);
    }
  }
  return { files: out, troubles };
}
