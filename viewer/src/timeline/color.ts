// Colours of operators, queues and kinds of dependency. A name has one colour, in every profile and every view: it comes from the
// name's hash alone. The colours differ in lightness as well as hue, so that they are told apart without red, green or blue.

import { keep, kept } from "../state/keep";
import { Store } from "../state/store";

export type Rgb = readonly [number, number, number];

const PALETTE: Rgb[] = [
  "4477aa",
  "88ccee",
  "117733",
  "ddcc77",
  "cc6677",
  "aa4499",
  "44aa99",
  "999933",
  "882255",
  "661100",
  "6699cc",
  "ee8866",
  "77aadd",
  "bbcc33",
  "aaaa00",
  "ffaabb",
  "99ddff",
  "44bb99",
  "225588",
  "c7622b",
  "8c6bb1",
  "5aae61",
  "bf812d",
  "de77ae",
].map(parse);

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
  keep("colors", colors);
});

const cache = new Map<string, Rgb>();

/** Each colour comes in three lightnesses: more operators than colours have one of their own. */
function shaded(color: Rgb, shade: number): Rgb {
  const [toward, share] = shade === 1 ? [0, 0.26] : [255, 0.3];
  return shade === 0 ? color : (color.map((c) => Math.round(c + (toward! - c) * share!)) as unknown as Rgb);
}

function natural(name: string): Rgb {
  const hash = hashName(name);
  return shaded(PALETTE[hash % PALETTE.length]!, Math.floor(hash / PALETTE.length) % 3);
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

export function css(color: Rgb, alpha = 1): string {
  return `rgb(${color[0]} ${color[1]} ${color[2]} / ${alpha})`;
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
    color: "#e5342b",
    means: "the instruction that started the selected transfer",
  },
  { kind: "TRANSFER", name: "DMA transfer", color: "#2f7de1", means: "a transfer linked to the selected instruction" },
  { kind: "FLOW_DEPENDENCE", name: "Flow", color: "#2e9e4f", means: "reads a value that the earlier one wrote" },
  { kind: "ANTI_DEPENDENCE", name: "Anti", color: "#f07f13", means: "overwrites a value that the earlier one reads" },
  {
    kind: "OUTPUT_DEPENDENCE",
    name: "Output",
    color: "#8e5bd0",
    means: "writes the location that the earlier one wrote",
  },
  { kind: "ORDERED_DEPENDENCE", name: "Ordered", color: "#7b8794", means: "kept in order by the scheduler" },
  { kind: "SEMAPHORE", name: "Semaphore", color: "#d6409f", means: "waited for the other's semaphore update" },
  { kind: "DMA_WAIT", name: "DMA wait", color: "#0f8f8c", means: "waits for the transfer to finish" },
  {
    kind: "SAME_PSUM_BANK",
    name: "Same PSUM Bank",
    color: "#8b5a2b",
    means: "used the same PSUM bank just before or after",
  },
];

const STYLES = new Map(DEPENDENCIES.map((style) => [style.kind, style]));

export function dependencyStyle(kind: string): DependencyStyle {
  return STYLES.get(kind) ?? { kind, name: kind.replace(/_/g, " ").toLowerCase(), color: "#7b8794", means: "" };
}
