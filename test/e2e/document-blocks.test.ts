import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { knownDirectives, locationOf, readBlocks } from '../helpers/document-blocks.ts';
import { runnableLanguages } from '../helpers/document-session.ts';
import { testBlocks } from '../helpers/document-tests.ts';
import { documents } from '../helpers/documents.ts';

// document-blocks.slow.test.ts runs all blocks except the console blocks of the README.

const blocks = documents.flatMap(readBlocks);
const runnable = blocks.filter(({ language }) => runnableLanguages.includes(language));

describe('each console block of the README shows what the program prints', () => {
  testBlocks(({ document, language }) => document === 'README.md' && language === 'console');
});

test('few blocks are not run, and each gives a reason', () => {
  expect(runnable.filter(({ skipReason }) => skipReason !== undefined).length).toBeLessThanOrEqual(4);
});

test('every npm script in the documents exists', () => {
  const scripts = runnable.flatMap(({ text }) =>
    [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name]) => name),
  );
  expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining([...new Set(scripts)]));
});

test('every directive is known, and commands are only in blocks of a language that is run', () => {
  // test/e2e/document-proxies.slow.test.ts runs these blocks.
  const proxies = ['nginx', 'haproxy'];
  const otherLanguages = [
    '',
    'text',
    'ts',
    'json',
    'ndjson',
    'csv',
    'http',
    'ini',
    'toml',
    'dockerfile',
    ...proxies,
  ];
  const problems = blocks.flatMap((block) => {
    const { language, text, directives } = block;
    const isRunnable = runnableLanguages.includes(language);
    return [
      ...(isRunnable || otherLanguages.includes(language) ? [] : [`unknown language ${language}`]),
      ...(!isRunnable && /^(\$ |pets |npm |npx )/m.test(text)
        ? ['a command in a block that is not run']
        : []),
      ...directives
        .filter((each) => !knownDirectives.includes(each))
        .map((each) => `unknown directive ${each}`),
    ].map((problem) => `${locationOf(block)}: ${problem}`);
  });
  expect(problems).toEqual([]);
});
