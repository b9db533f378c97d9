import { expect, test } from 'vitest';
import { complete, completionSpec } from '../../src/cli/completion/complete.ts';
import { commands } from '../../src/cli/main.ts';
import { createProgram } from '../../src/cli/program/program.ts';
import { runInTerminal } from '../helpers/context.ts';

const spec = completionSpec(createProgram(commands).program, ['environment']);
const offered = (...words: string[]) => complete(spec, words);

const globals =
  '--profile --base-url --json --quiet --max-wait --timeout --max-time --no-retry --debug --color --no-input --version --help';

/** A line without `pets`, and the candidates. If the line ends with a space, its last word is empty. */
test.each<[line: string, offered: string]>([
  ['li', 'list'],
  ['keys ', 'add list revoke'],
  ['use ', 'prod staging local'],
  ['help keys ', 'add list revoke'],
  ['list --n', '--ndjson --no-retry --no-input'],
  ['--profile local li', 'list'],
  ['list --status ', 'available pending sold'],
  ['list --status=av', '--status=available'],
  ['list --output=da', ':files'],
  ['list --sort id:', 'id:asc id:desc'],
  ['--profile ', 'prod staging local'],
  ['keys add till --plan ', 'free pro business enterprise'],
  ['import ', ':files'],
  ['serve --seed ', ':files'],
  ['store copy a ', ':files'],
  ['serve --seed -- npm te', ':files'],
  // The position decides what is offered.
  ['--base-url keys li', 'list'],
  ['serve --seed --po', '--port'],
  // Options for an empty word, if no argument has candidates.
  ['use prod ', globals],
  ['login x ', `${globals.slice(0, 20)} --no-verify${globals.slice(20)}`],
  ['add Re', ''],
  ['serve n', ''],
])('pets %s: %s', (line, words) => {
  expect(offered(...line.split(' '))).toEqual(words.split(' ').filter(Boolean));
});

test('every command is offered once', async () => {
  const { stdout } = await runInTerminal(['--help']);
  const names = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name);
  expect(names).toContain('completion');
  expect(offered('')).toEqual(names);
  expect(offered()).toEqual(names);
});

test.each(['bash', 'zsh', 'fish'])('%s prints a script that says first how to install it', async (shell) => {
  const { code, stdout, stderr } = await runInTerminal(['completion', shell]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const head = stdout.slice(0, stdout.indexOf('\n\n'));
  expect(head).toMatch(
    /^(#compdef pets\n)?# Tab completion of pets for \w+\. To enable it in every new shell/,
  );
  expect(head).toContain(`pets completion ${shell}`);
});
