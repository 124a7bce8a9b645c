/** Profiles put together to sides, the base's first; side[i] says which profile's side the i-th one is on. */
export function sidesOf(names: string[], side: number[], base: number): string[][] {
  const order = [base, ...names.map((_, i) => i).filter((i) => i !== base)];
  return order.map((wanted) => names.filter((_, i) => side[i] === wanted)).filter((captures) => captures.length > 0);
}
