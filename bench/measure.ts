/** The figures of one contestant, one per round. */
export type Samples = readonly number[];

/**
 * Measures the contestants in turn. Each round starts with another contestant, so that other load on the machine
 * affects all contestants. The first round is a warm-up, whose figures are discarded.
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

/** Combines the figures of two sides round by round. */
export const pairwise = (a: Samples, b: Samples, combine: (a: number, b: number) => number): number[] =>
  a.map((value, round) => combine(value, b[round] ?? Number.NaN));

export const ratios = (a: Samples, b: Samples): number[] => pairwise(a, b, (x, y) => x / y);

export function median(samples: Samples): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? Number.NaN : (low + high) / 2;
}
