import { median, pairwise, ratios, type Samples } from './measure.ts';

/** The range of figures that meets the target; `peer` if the row is only for comparison. */
export type Bounds = { least?: number; most?: number } | 'peer';

export type Side = { unit: string; samples: Samples };

/** A row of the table. `figure` is the median of `values`, which has one value per round. */
export type Measured = {
  what: string;
  figure: number;
  /** The unit of the figure; empty for a ratio. */
  unit: string;
  values: Samples;
  bounds?: Bounds | undefined;
  ours?: Side;
  peer?: Side | undefined;
};

export type Row = Measured | { what: string; missing: string };

/** A row of our samples ÷ the peer's samples, round by round. */
export function ratio(what: string, unit: string, ours: Samples, peer: Samples, bounds?: Bounds): Row {
  const values = ratios(ours, peer);
  return {
    what,
    figure: median(values),
    unit: '',
    values,
    bounds,
    ours: { unit, samples: ours },
    peer: { unit, samples: peer },
  };
}

/** A row of our samples − the peer's samples, round by round. */
export function difference(what: string, unit: string, ours: Samples, peer: Samples, bounds?: Bounds): Row {
  const values = pairwise(ours, peer, (a, b) => a - b);
  return { ...ratio(what, unit, ours, peer, bounds), figure: median(values), unit, values };
}

/** A row of our own samples. The peer's samples are only shown. */
export function single(what: string, unit: string, ours: Samples, bounds?: Bounds, peer?: Samples): Row {
  return {
    what,
    figure: median(ours),
    unit,
    values: ours,
    bounds,
    ours: { unit, samples: ours },
    peer: peer && { unit, samples: peer },
  };
}

export const missing = (what: string, why: string): Row => ({ what, missing: why });

/** A row of samples that only Linux provides; without a figure if any sample is missing. */
export function rowIfKnown(
  what: string,
  sides: readonly (readonly (number | undefined)[])[],
  row: (...sides: Samples[]) => Row,
): Row {
  const known = sides.map((side) => side.filter((value) => value !== undefined));
  const isKnown = known.every((side, i) => side.length === sides[i]?.length);
  return isKnown ? row(...known) : missing(what, 'only Linux provides this figure, in /proc');
}
