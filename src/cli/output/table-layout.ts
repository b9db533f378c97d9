/** What the layout asks of a column; all widths are columns of the terminal. */
export type Extent = {
  /** The widest cell. */
  content: number;
  head: number;
  /** Gives way before the others, down to a width that still tells its cells apart. */
  wide: boolean;
  /** Not narrower than this: the last columns go rather. */
  atLeast: number;
};

export type Layout = {
  /** The widths of the columns that are shown: so many of the first ones. */
  widths: number[];
  gap: number;
};

const GAP = 2;
/** A narrow terminal has better use for it. */
const NARROW_GAP = 1;
const NARROW = 40;

/** What a wide column keeps while another has anything to spare, and while another loses no more than its heading. */
const WIDE_AT_LEAST = 8;
const WIDE_AT_LAST = 4;

/**
 * Widths that fit the terminal. Each column is as wide as it would like to be, and only where that is too much the wide
 * ones give way, then headings, then whatever is widest; where even that does not do, the last columns are left out.
 */
export function fitColumns(extents: readonly Extent[], terminal: number): Layout {
  const gap = terminal < NARROW ? NARROW_GAP : GAP;
  const room = (shown: number) => terminal - gap * (shown - 1);
  const wish = ({ content, head }: Extent) => Math.max(content, head, 1);
  const floor = (extent: Extent) => Math.max(1, Math.min(wish(extent), extent.atLeast));

  let shown = extents.length;
  while (shown > 1 && sum(extents.slice(0, shown).map(floor)) > room(shown)) shown--;
  const columns = extents.slice(0, shown);

  const steps: ((extent: Extent) => number)[] = [
    (extent) => (extent.wide ? WIDE_AT_LEAST : Number.POSITIVE_INFINITY),
    (extent) => (extent.wide ? WIDE_AT_LEAST : extent.content),
    (extent) => (extent.wide ? WIDE_AT_LAST : extent.content),
    () => 1,
  ];
  let widths = columns.map(wish);
  for (const step of steps) {
    const least = columns.map((extent, i) => Math.min(widths[i] ?? 0, Math.max(floor(extent), step(extent))));
    widths = shrink(widths, least, room(shown));
  }
  return { widths, gap };
}

/** Takes from the widest that may be narrower until the sum fits. */
function shrink(widths: readonly number[], least: readonly number[], room: number): number[] {
  const fitted = [...widths];
  for (let excess = sum(fitted) - room; excess > 0; excess--) {
    let widest = -1;
    fitted.forEach((width, i) => {
      if (width > (least[i] ?? 0) && width > (fitted[widest] ?? 0)) widest = i;
    });
    if (widest === -1) break;
    fitted[widest] = (fitted[widest] ?? 0) - 1;
  }
  return fitted;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
