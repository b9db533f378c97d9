import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { anchorsOf, brokenLinks } from '../helpers/readme-links.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const root = join(import.meta.dirname, '..', '..');

test.each(['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'])('every link in %s leads somewhere', (name) => {
  expect(brokenLinks(root, name)).toEqual([]);
});

test('a heading has the anchor that GitHub gives it', () => {
  const headings =
    '# pets\n## `pets serve` & co.\n### Exit codes\n### Exit codes\n```sh\n# no heading\n```\n## Où: [a](b)\n';
  expect([...anchorsOf(headings)]).toEqual(['pets', 'pets-serve--co', 'exit-codes', 'exit-codes-1', 'où-a']);
});

test('a link to no file, to no heading or to another protocol is found', async () => {
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
