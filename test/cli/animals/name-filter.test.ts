import { expect, test } from 'vitest';
import { parseNameFilter } from '../../../src/cli/animals/name-filter.ts';

test.each([
  ['rex', 'T-REX the Second'],
  ['T-REX', 't-rex'],
  ['zoe', 'Zoë'],
  ['ZOË', 'zoe'],
  ['Zoe\u0308', 'Zoë'],
  ['strasse', 'Große Straße'],
  ['STRAẞE', 'strasse'],
  ['aeroskobing', 'Ærøskøbing'],
  ['lodz', 'ŁÓDŹ'],
  ['istanbul', 'İSTANBUL'],
  ['isi', 'ısı'],
  ['δος', 'ΟΔΟΣΑ'],
  ['fido', 'ﬁdo'],
  ['rex', 'Ｒｅｘ'],
  ["o'brien", 'O’Brien'],
  ['rex', 'Re\u00adx'],
  ['שלום', 'שָׁלוֹם'],
  ['राम', 'सीताराम'],
  ['한국', '한국어'.normalize('NFD')],
  ['🐕', 'Rex 🐕‍🦺'],
  ['.*', 'a.*b'],
  ['/', 'a/b'],
  ['//', 'a//b'],
  ['/rex', 'a/rex'],
  ['/^r.x$/', 'rex'],
  ['/^r.x$/i', 'REX'],
  ['/a/b/', 'a/b'],
  ['/^.$/u', '🐕'],
  [String.raw`/\p{Lu}/u`, 'rEx'],
])('%s matches %s', (text, name) => {
  expect(parseNameFilter(text).select([{ name }])).toHaveLength(1);
});

test.each([
  ['rex', 'Re x'],
  ['.*', 'rex'],
  ['/rex/', 'REX'],
  ['/zoe/i', 'Zoë'],
  // The vowel signs differ. They are marks, but not accents.
  ['राम', 'रोम'],
  ['가', '각'],
])('%s does not match %s', (text, name) => {
  expect(parseNameFilter(text).select([{ name }])).toEqual([]);
});

test.each([
  ['', 'must be part of a name'],
  ['\u0301', 'must be part of a name'],
  ['/(/', 'must be a valid regular expression (Unterminated group)'],
  ['/a: [/', 'must be a valid regular expression (Unterminated character class)'],
  ['/a/g', 'may have the flags i, m, s, u and v'],
  ['/a/ii', 'must be a valid regular expression (Invalid flags'],
])('%j is an error: %s', (text, message) => {
  expect(() => parseNameFilter(text)).toThrow(message);
});

test('a filter shows what it looks for', () => {
  expect(parseNameFilter('O"Brien').shown).toBe(String.raw`"O\"Brien"`);
  expect(parseNameFilter('/^rex/i').shown).toBe('/^rex/i');
});

test('a regular expression that takes too long is an error, and the filter works again afterwards', () => {
  const { select } = parseNameFilter('/^(a+)+$/');
  const slow = Array.from({ length: 3 }, () => ({ name: `${'a'.repeat(40)}!` }));
  expect(() => select(slow)).toThrow('the regular expression /^(a+)+$/ takes too long');
  expect(select([{ name: 'aa' }, { name: 'b' }])).toEqual([{ name: 'aa' }]);
});
