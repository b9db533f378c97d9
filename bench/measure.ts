/** A figure a round. */
export type Samples = readonly number[];

/**
 * Measures the contestants in turns, so that what else the machine does meets all of them: round by round, each time
 * beginning with another one. The first round warms up and is forgotten; the contestants are told of it.
 */
export async function inTurns<Name extends string, T>(
  rounds: number,
  contestants: Readonly<Record<Name, (isWarmUp: boolean) => Promise<T>>>,
): Promise<Record<Name, T[]>> {
  const names = Object.keys(contestants) as Name[];
  const samples = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<Name, T[]>;
  for (let round = 0; round <= rounds; round++) {
    const first = round % names.length;
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      const sample = await contestants[name](round === 0);
      if (round > 0) samples[name].push(sample);
    }
  }
  return samples;
}

/** How many times what is measured is started anew. */
const STARTS = 3;

/**
 * Measures the rounds in three parts, each with processes of its own: V8 compiles no two alike, and one may be a fifth
 * quicker than another for as long as both live.
 */
export async function afresh<Name extends string, T>(
  rounds: number,
  measure: (rounds: number) => Promise<Record<Name, T[]>>,
): Promise<Record<Name, T[]>> {
  const all: Partial<Record<Name, T[]>> = {};
  for (let part = 0; part < STARTS; part++) {
    const count = Math.floor(((part + 1) * rounds) / STARTS) - Math.floor((part * rounds) / STARTS);
    const samples = count > 0 ? await measure(count) : {};
    for (const [name, more] of Object.entries(samples) as [Name, T[]][])
      all[name] = [...(all[name] ?? []), ...more];
  }
  return all as Record<Name, T[]>;
}

/** Combines what two sides measured in the same round. */
export const pairwise = (a: Samples, b: Samples, combine: (a: number, b: number) => number): number[] =>
  a.map((value, round) => combine(value, b[round] ?? Number.NaN));

export const ratios = (a: Samples, b: Samples): number[] => pairwise(a, b, (x, y) => x / y);

export function median(samples: Samples): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}
