import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { anchorsOf, brokenLinks } from '../helpers/document-links.ts';
import { documents, repository } from '../helpers/documents.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const names = [
  ...documents.map(({ name }) => name),
  'CHANGELOG.md',
  'bench/README.md',
  '.github/SECURITY.md',
];

test.each(names)('every link in %s has a target', (name) => {
  expect(brokenLinks(repository, name)).toEqual([]);
});

test('every link in a document of the package has a target in the package', async () => {
  const { stdout } = await promisify(execFile)('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: repository,
  });
  const packed: string[] = JSON.parse(stdout)[0].files.map(({ path }: { path: string }) => path);
  const directory = await temporaryDirectory();
  for (const path of packed) await cp(join(repository, path), join(directory, path), { recursive: true });
  const texts = packed.filter((path) => path.endsWith('.md'));
  expect(texts).toEqual(expect.arrayContaining(['README.md', 'CONTRIBUTING.md', 'docs/commands.md']));
  expect(texts.flatMap((name) => brokenLinks(directory, name))).toEqual([]);
});

test('every file and directory of the repository that a document names exists', () => {
  const problems = documents.flatMap(({ name, text }) =>
    text
      .split('\n')
      .flatMap((line, i) =>
        [...line.matchAll(/`((?:src|test|bench|bin|docs|\.config|\.github|\.ci)\/[\w./-]*)`/g)]
          .filter(([, path = '']) => !existsSync(join(repository, path)))
          .map(([, path]) => `${name}:${i + 1}: there is no ${path}`),
      ),
  );
  expect(problems).toEqual([]);
});

test('a heading gets the anchor that GitHub generates', () => {
  const headings =
    '# pets\n## `pets serve` & co.\n### Exit codes\n### Exit codes\n```sh\n# no heading\n```\n## Où: [a](b)\n';
  expect([...anchorsOf(headings)]).toEqual(['pets', 'pets-serve--co', 'exit-codes', 'exit-codes-1', 'où-a']);
});

test('links to a missing file, a missing heading or an insecure address are reported', async () => {
  const directory = await temporaryDirectory();
  const good = [
    '[a](b.md)',
    '[a](#one)',
    '[a](b.md#two)',
    '<https://example.com/x>',
    '`[a](code)`',
    '![a](b.md "t")',
  ];
  const bad = [
    '[a](c.md)',
    '[a](#two)',
    '[a](b.md#one)',
    '[a](http://example.com)',
    '<img src="d.svg">',
    '[e]: f.md',
  ];
  await writeFile(join(directory, 'b.md'), '## Two\n');
  await writeFile(join(directory, 'a.md'), `# One\n${[...good, ...bad].join('\n\n')}\n`);
  expect(brokenLinks(directory, 'a.md').sort()).toEqual(
    ['c.md', '#two', 'b.md#one', 'http://example.com', 'd.svg', 'f.md'].sort(),
  );
});
