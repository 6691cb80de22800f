/** Lengths in nm: the unit names that OME, N5 and older metadata use. */

const PREFIXES: Record<string, number> = {
  tera: 1e12,
  giga: 1e9,
  mega: 1e6,
  kilo: 1e3,
  hecto: 1e2,
  deca: 1e1,
  "": 1,
  deci: 1e-1,
  centi: 1e-2,
  milli: 1e-3,
  micro: 1e-6,
  nano: 1e-9,
  pico: 1e-12,
  femto: 1e-15,
};

const NM: Record<string, number> = {
  m: 1e9,
  dm: 1e8,
  cm: 1e7,
  mm: 1e6,
  um: 1e3,
  "\u00b5m": 1e3, // micro sign
  "\u03bcm": 1e3, // Greek mu
  micron: 1e3,
  microns: 1e3,
  nm: 1,
  pm: 1e-3,
  fm: 1e-6,
  km: 1e12,
  "\u00e5": 0.1,
  angstrom: 0.1,
  angstroms: 0.1,
  in: 2.54e7,
  inch: 2.54e7,
  foot: 3.048e8,
  ft: 3.048e8,
};
for (const [prefix, factor] of Object.entries(PREFIXES)) {
  for (const word of ["meter", "meters", "metre", "metres"])
    NM[prefix + word] = Number((factor * 1e9).toPrecision(12));
}

/** How many nm one unit is; undefined for a unit that is not known. */
export function nmPer(unit: string): number | undefined {
  const word = unit.trim().replace("\u212b", "\u00e5").toLowerCase();
  return Object.hasOwn(NM, word) ? NM[word] : undefined;
}

/** A value in nm, without the last-digit noise of the factor: 0.05 µm is 50 nm. Unknown and absent units are nm. */
export function toNm(value: number, unit: string | undefined): number {
  const factor = unit ? nmPer(unit) : 1;
  if (factor === undefined) return value;
  const product = factor >= 1 ? value * factor : value / Number((1 / factor).toFixed(9));
  const short = Number(product.toPrecision(15));
  return Math.abs(short - product) <= 4e-16 * Math.abs(product) ? short : product;
}
