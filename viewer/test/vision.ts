// How colours look to those who do not see all of them, and how far apart two then are.
//
// Simulation: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
// severity 1.0, on linear sRGB. Distance: CIEDE2000 (Sharma, Wu and Dalal, 2005).

export type Color = readonly [number, number, number];

export const SIGHTS: Record<string, number[][]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const XYZ = [
  [0.4124564, 0.3575761, 0.180437],
  [0.2126729, 0.7151522, 0.072175],
  [0.0193339, 0.119192, 0.9503041],
];
const WHITE = [0.95047, 1, 1.08883];

function times(matrix: number[][], v: number[]): number[] {
  return matrix.map((row) => row.reduce((sum, value, i) => sum + value * v[i]!, 0));
}

function linear(channel: number): number {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

/** CIELAB of a colour as that sight has it. */
export function labOf(color: Color, sight: string): number[] {
  const seen = times(SIGHTS[sight]!, color.map(linear)).map((c) => Math.min(Math.max(c, 0), 1));
  const [x, y, z] = times(XYZ, seen).map((value, i) => {
    const t = value / WHITE[i]!;
    return t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116;
  });
  return [116 * y! - 16, 500 * (x! - y!), 200 * (y! - z!)];
}

const rad = (degrees: number) => (degrees * Math.PI) / 180;
const hue = (a: number, b: number) => (a === 0 && b === 0 ? 0 : ((Math.atan2(b, a) * 180) / Math.PI + 360) % 360);

export function ciede2000(one: number[], two: number[]): number {
  const [l1, a1, b1] = one as [number, number, number];
  const [l2, a2, b2] = two as [number, number, number];
  const mean7 = ((Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2) ** 7;
  const g = 1.5 - 0.5 * Math.sqrt(mean7 / (mean7 + 25 ** 7));
  const [c1, c2] = [Math.hypot(a1 * g, b1), Math.hypot(a2 * g, b2)];
  const [h1, h2] = [hue(a1 * g, b1), hue(a2 * g, b2)];
  const grey = c1 * c2 === 0;
  let turn = grey ? 0 : h2 - h1;
  if (turn > 180) turn -= 360;
  else if (turn < -180) turn += 360;
  let h = h1 + h2;
  if (!grey) h = Math.abs(h1 - h2) <= 180 ? h / 2 : h < 360 ? (h + 360) / 2 : (h - 360) / 2;
  const [l, c] = [(l1 + l2) / 2, (c1 + c2) / 2];
  const t =
    1 -
    0.17 * Math.cos(rad(h - 30)) +
    0.24 * Math.cos(rad(2 * h)) +
    0.32 * Math.cos(rad(3 * h + 6)) -
    0.2 * Math.cos(rad(4 * h - 63));
  const dl = (l2 - l1) / (1 + (0.015 * (l - 50) ** 2) / Math.sqrt(20 + (l - 50) ** 2));
  const dc = (c2 - c1) / (1 + 0.045 * c);
  const dh = (2 * Math.sqrt(c1 * c2) * Math.sin(rad(turn / 2))) / (1 + 0.015 * c * t);
  const c7 = c ** 7;
  const rotation = -2 * Math.sqrt(c7 / (c7 + 25 ** 7)) * Math.sin(rad(60 * Math.exp(-(((h - 275) / 25) ** 2))));
  return Math.sqrt(dl ** 2 + dc ** 2 + dh ** 2 + rotation * dc * dh);
}

/** The two that are hardest to tell apart for that sight. */
export function closest(colors: Color[], sight: string): { distance: number; pair: [number, number] } {
  const labs = colors.map((color) => labOf(color, sight));
  let best = { distance: Number.POSITIVE_INFINITY, pair: [0, 0] as [number, number] };
  for (let i = 0; i < labs.length; i++)
    for (let j = i + 1; j < labs.length; j++) {
      const distance = ciede2000(labs[i]!, labs[j]!);
      if (distance < best.distance) best = { distance, pair: [i, j] };
    }
  return best;
}
