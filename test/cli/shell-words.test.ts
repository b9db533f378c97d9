import { expect, test } from 'vitest';
import { shellQuote } from '../../src/cli/output/text.ts';

test.each([
  ['linux', ['pets', 'import', './a-b.csv'], 'pets import ./a-b.csv'],
  ['linux', ['a b', "it's", '$HOME', 'a\\b', ''], "'a b' 'it'\\''s' '$HOME' 'a\\b' ''"],
  ['win32', ['pets', 'import', 'C:\\shop\\a.csv'], 'pets import C:\\shop\\a.csv'],
  ['win32', ['a b', 'say "hi"', ''], '"a b" "say ""hi""" ""'],
] as const)('on %s the words %j are quoted as %s', (platform, words, line) => {
  expect(shellQuote(words, platform)).toBe(line);
});
