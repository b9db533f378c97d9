import { expect, test } from 'vitest';
import { shellQuote, withEnvironment } from '../../src/cli/core/shell-words.ts';

test.each([
  ['linux', ['pets', 'import', './a-b.csv'], 'pets import ./a-b.csv'],
  ['linux', ['a b', "it's", '$HOME', 'a\\b', ''], "'a b' 'it'\\''s' '$HOME' 'a\\b' ''"],
  ['win32', ['pets', 'import', 'C:\\shop\\a.csv'], 'pets import C:\\shop\\a.csv'],
  ['win32', ['a b', 'say "hi"', ''], '"a b" "say ""hi""" ""'],
] as const)('on %s the words %j are quoted as %s', (platform, words, line) => {
  expect(shellQuote(words, platform)).toBe(line);
});

test('environment variables are set in the syntax of the system’s shell', () => {
  const variables = { PETS_BASE_URL: 'http://127.0.0.1:7387/v1', PETS_API_KEY: '<key>' };
  expect(withEnvironment(variables, 'pets list', 'linux')).toBe(
    "PETS_BASE_URL=http://127.0.0.1:7387/v1 PETS_API_KEY='<key>' pets list",
  );
  expect(withEnvironment(variables, 'pets list', 'win32')).toBe(
    '$env:PETS_BASE_URL="http://127.0.0.1:7387/v1"; $env:PETS_API_KEY="<key>"; pets list',
  );
});
