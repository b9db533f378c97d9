// Replaces the string-width 4 of cli-table3, which measures emoji and newer scripts differently from terminals. Version 8 is
// an ES module, and cli-table3 needs a function from `require`.
const stringWidth = require('string-width').default;

// cli-table3 measures each cell about ten times. Without this memory, a table of 10,000 names with emoji takes 8 s, not 2 s.
const MAX_WIDTHS = 1_000;
const widths = new Map();

module.exports = (text) => {
  const known = widths.get(text);
  if (known !== undefined) return known;
  if (widths.size >= MAX_WIDTHS) widths.clear();
  const width = stringWidth(text);
  widths.set(text, width);
  return width;
};
