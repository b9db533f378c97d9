import { median, pairwise, ratios, type Samples } from './measure.ts';

/** The bounds of the target; `peer` if the row is only for comparison. */
export type Reach = { least?: number; most?: number } | 'peer';

export type Side = { unit: string; samples: Samples };

/** A row of the table. `figure` is the median of `values`, which has one value per round. */
export type Measured = {
  what: string;
  figure: number;
  /** The unit of the figure; empty for a ratio. */
  unit: string;
  values: Samples;
  reach?: Reach | undefined;
  ours?: Side;
  peer?: Side | undefined;
};

export type Row = Measured | { what: string; missing: string };

/** Ours ÷ the peer's, round by round. */
export function ratio(what: string, unit: string, ours: Samples, peer: Samples, reach?: Reach): Row {
  const values = ratios(ours, peer);
  return {
    what,
    figure: median(values),
    unit: '',
    values,
    reach,
    ours: { unit, samples: ours },
    peer: { unit, samples: peer },
  };
}

/** Ours − the peer's, round by round. */
export function difference(what: string, unit: string, ours: Samples, peer: Samples, reach?: Reach): Row {
  const values = pairwise(ours, peer, (a, b) => a - b);
  return { ...ratio(what, unit, ours, peer, reach), figure: median(values), unit, values };
}

/** Our own figure, without a comparison. */
export function alone(what: string, unit: string, ours: Samples, reach?: Reach, peer?: Samples): Row {
  return {
    what,
    figure: median(ours),
    unit,
    values: ours,
    reach,
    ours: { unit, samples: ours },
    peer: peer && { unit, samples: peer },
  };
}

export const missing = (what: string, why: string): Row => ({ what, missing: why });

/** A row of samples that not every system provides; a missing row if any sample is missing. */
export function whereKnown(
  what: string,
  sides: readonly (readonly (number | undefined)[])[],
  row: (...sides: Samples[]) => Row,
): Row {
  const known = sides.map((side) => side.filter((value) => value !== undefined));
  const isKnown = known.every((side, i) => side.length === sides[i]?.length);
  return isKnown ? row(...known) : missing(what, 'only Linux provides this figure, in /proc');
}
