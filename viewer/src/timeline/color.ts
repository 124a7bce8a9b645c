// Colours of operators, queues and kinds of dependency. A name has one colour, in every profile and every view: it comes from the
// name's hash alone. Any two of them are told apart also by those who do not see red, green or blue.

import { keep, kept } from "../state/keep";
import { Store } from "../state/store";

export type Rgb = readonly [number, number, number];

/**
 * Each was chosen as the one that lies furthest from all before it, for the eye that tells them apart worst (normal sight,
 * protanopia, deuteranopia, tritanopia), and far enough from the ground of both themes; test/color.test.ts measures it.
 */
const PALETTE_TEXT = `
  4477aa ffa415 7d2f08 b1cbff 8a8a63 f2d8b1 08b1a4 15497d 978aff d85608 975670 b1b17d
  567049 b17d8a 4949cb a497cb be082f 70e570 8a63e5 8abea4 f27d3c 156356 be498a 4997a4
  8ab1ff 977dcb 567d63 977d3c 7d4970 ff498a 63562f 63b156 565697 cba4cb 492fb1 be4915
  ffcb3c 568a7d 085615 f263a4 70cb63 d8be97 7da42f 3c6349 cb637d 4963cb 707d56 8a087d`;
export const PALETTE: Rgb[] = PALETTE_TEXT.trim().split(/\s+/).map(parse);

/** What belongs to no operator: quiet, between the themes. */
const NEUTRAL: Rgb = [128, 134, 142];

function parse(text: string): Rgb {
  const value = Number.parseInt(text, 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** FNV-1a with a final mix, over UTF-16 units: the same in every browser and every version of this page. */
export function hashName(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

export type CustomColors = Record<string, string>;

export const customColors = new Store<CustomColors>(kept("colors", {}));
customColors.watch((colors) => {
  cache.clear();
  tables = new WeakMap();
  keep("colors", colors);
});

const cache = new Map<string, Rgb>();
let tables = new WeakMap<readonly string[], Uint32Array>();

function natural(name: string): Rgb {
  return PALETTE[hashName(name) % PALETTE.length]!;
}

export function colorOf(name: string): Rgb {
  const known = cache.get(name);
  if (known) return known;
  const custom = customColors.value[name];
  let color = name === "" ? NEUTRAL : natural(name);
  if (custom && /^#[0-9a-f]{6}$/i.test(custom)) color = parse(custom.slice(1));
  cache.set(name, color);
  return color;
}

/** The colours of a dictionary's names as pixels of an ImageData (0xaabbggrr) without alpha; 0 in the table: not looked up yet. */
export class ColorTable {
  private readonly known: Uint32Array;

  constructor(private readonly dict: readonly string[]) {
    this.known = tables.get(dict) ?? new Uint32Array(dict.length);
    tables.set(dict, this.known);
  }

  pixel(place: number): number {
    const before = this.known[place];
    if (before) return before & 0xffffff;
    const [red, green, blue] = colorOf(this.dict[place] ?? "");
    const color = red | (green << 8) | (blue << 16);
    if (place < this.known.length) this.known[place] = color | 0x1000000;
    return color;
  }
}

const opaque = new WeakMap<Rgb, string>();

export function css(color: Rgb, alpha = 1): string {
  const known = alpha === 1 ? opaque.get(color) : undefined;
  if (known) return known;
  const text = `rgb(${color[0]} ${color[1]} ${color[2]} / ${alpha})`;
  if (alpha === 1) opaque.set(color, text);
  return text;
}

export function hex(color: Rgb): string {
  return `#${color.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
}

/** Is dark text easier to read on it than light text? */
export function isLight(color: Rgb): boolean {
  return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2] > 140;
}

export interface DependencyStyle {
  kind: string;
  name: string;
  color: string;
  means: string;
}

/** The legend. The seed names three colours: the starter of a transfer red, transfers of an instruction blue, Same PSUM Bank brown. */
export const DEPENDENCIES: DependencyStyle[] = [
  {
    kind: "DMA_TRIGGER",
    name: "Started the transfer",
    color: "#d84830",
    means: "the instruction that started the selected transfer",
  },
  { kind: "TRANSFER", name: "DMA transfer", color: "#009cfc", means: "a transfer linked to the selected instruction" },
  { kind: "FLOW_DEPENDENCE", name: "Flow", color: "#3cf09c", means: "reads a value that the earlier one wrote" },
  { kind: "ANTI_DEPENDENCE", name: "Anti", color: "#fc9c00", means: "overwrites a value that the earlier one reads" },
  {
    kind: "OUTPUT_DEPENDENCE",
    name: "Output",
    color: "#540090",
    means: "writes the location that the earlier one wrote",
  },
  { kind: "ORDERED_DEPENDENCE", name: "Ordered", color: "#9c9c90", means: "kept in order by the scheduler" },
  { kind: "SEMAPHORE", name: "Semaphore", color: "#a86c9c", means: "waited for the other's semaphore update" },
  { kind: "DMA_WAIT", name: "DMA wait", color: "#006c60", means: "waits for the transfer to finish" },
  {
    kind: "SAME_PSUM_BANK",
    name: "Same PSUM Bank",
    color: "#6c240c",
    means: "used the same PSUM bank just before or after",
  },
];

const STYLES = new Map(DEPENDENCIES.map((style) => [style.kind, style]));

export function dependencyStyle(kind: string): DependencyStyle {
  return STYLES.get(kind) ?? { kind, name: kind.replace(/_/g, " ").toLowerCase(), color: "#9c9c90", means: "" };
}
