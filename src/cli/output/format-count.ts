/** A number with its noun, such as `1 row` or `3 rows`. */
export const formatCount = (count: number, noun: string): string =>
  `${count} ${noun}${count === 1 ? '' : 's'}`;
