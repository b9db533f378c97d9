import { median, pairwise, ratios, type Samples } from './measure.ts';

/** The bounds of design section 11; `peer`: the row is there to compare with. */
export type Reach = { least?: number; most?: number } | 'peer';

export type Side = { unit: string; samples: Samples };

/** A row of the table. `figure` is the median of `values`, which has one of each round. */
export type Measured = {
  what: string;
  figure: number;
  /** Of the figure; empty for a ratio. */
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

/** Ours, as it is. */
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

/** How far the medians of several are from that of one, and as the figure the farthest. */
export function flat(what: string, others: readonly Samples[], one: Samples, reach: Reach): Row {
  const values = others.map((other) => median(other) / median(one));
  const figure = values.reduce((far, value) => (Math.abs(value - 1) > Math.abs(far - 1) ? value : far), 1);
  return { what, figure, unit: '', values, reach };
}

export const missing = (what: string, why: string): Row => ({ what, missing: why });

/** Rows of what not every system tells: it is missing where a sample is. */
export function whereKnown(
  what: string,
  sides: readonly (readonly (number | undefined)[])[],
  row: (...sides: Samples[]) => Row,
): Row {
  const known = sides.map((side) => side.filter((value) => value !== undefined));
  const isKnown = known.every((side, i) => side.length === sides[i]?.length);
  return isKnown ? row(...known) : missing(what, 'this system does not tell it: Linux does, in /proc');
}
