import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { knownMarks, readBlocks, sessionsOf } from '../helpers/readme-blocks.ts';
import { missingFor, runnableLanguages, runSession } from '../helpers/readme-session.ts';

// Every command line that a reader can copy, run against the built command. How a block says what it needs stands in
// test/helpers/readme-blocks.ts.

const read = (name: string) => readFileSync(join(import.meta.dirname, '..', '..', name), 'utf8');
const blocks = ['README.md', 'CONTRIBUTING.md'].flatMap((name) => readBlocks(name, read(name)));
const commands = blocks.filter(({ language }) => runnableLanguages.includes(language));
const left = commands.filter(({ reason }) => reason !== undefined);

/** What no test can do: the tests themselves, and what wants another machine. */
const MOST_LEFT = 4;

const firstLine = (text: string) =>
  text
    .trim()
    .split('\n')[0]
    ?.replace(/\s+#.*$/, '');

describe('every block runs as it stands', () => {
  for (const session of sessionsOf(commands.filter(({ reason }) => reason === undefined))) {
    const [first] = session.blocks;
    const missing = missingFor(session);
    const name = `${first?.at} ${firstLine(first?.text ?? '')}`;
    test.skipIf(missing.length > 0)(
      missing.length > 0 ? `${name} (this machine has no ${missing.join(', no ')})` : name,
      { timeout: 120_000 },
      async () => expect((await runSession(session)).join('\n\n')).toBe(''),
    );
  }
  for (const { at, text, reason } of left) test.skip(`${at} ${firstLine(text)} (${reason})`, () => {});
});

test('few blocks are left out, and each says why', () => {
  expect(left.map(({ at, reason }) => `${at} ${reason}`).length).toBeLessThanOrEqual(MOST_LEFT);
});

test('every script of the package that is named is there', () => {
  const named = commands.flatMap(({ text }) =>
    [...text.matchAll(/\bnpm run ([\w:]+)/g)].map(([, name]) => name),
  );
  expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining([...new Set(named)]));
});

test('every block has a language, and every mark is known', () => {
  const others = ['text', 'ts', 'json', 'ndjson', 'csv', 'http', 'ini', 'toml', 'mermaid'];
  for (const { at, language, text, marks } of blocks) {
    if (!runnableLanguages.includes(language)) {
      // The layout of a repository, a picture of text.
      expect([at, ['', ...others].includes(language)]).toEqual([at, true]);
      expect(text, at).not.toMatch(/^(\$ |pets |npm |npx )/m);
    }
    expect(knownMarks, at).toEqual(expect.arrayContaining([...marks]));
  }
});
