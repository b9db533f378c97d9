import { describe, expect, test } from 'vitest';
import { completionSpec } from '../../src/cli/commands/completion.ts';
import { commands } from '../../src/cli/commands/index.ts';
import { complete } from '../../src/cli/completion/complete.ts';
import { runInTerminal } from '../helpers/context.ts';

const table = completionSpec(commands);
/** The words that pets offers for a line, or `:files` if the shell completes the names of files itself. */
const offered = (...words: string[]) => {
  const offer = complete(table, words);
  return offer.isFile ? [':files'] : offer.words.map(({ value }) => value);
};

const globals =
  '--profile --base-url --json --quiet --max-wait --timeout --max-time --no-retry --debug --color --no-input --help --version';

describe('candidates', () => {
  /** A line without `pets`, the candidates, and the rule. If the line ends with a space, its last word is empty. */
  test.each<[line: string, offered: string, rule?: string]>([
    ['li', 'list'],
    ['p', 'profiles'],
    ['keys ', 'add list revoke'],
    ['keys add --pl', '--plan'],
    ['use ', 'prod staging local'],
    ['help l', 'list login logout'],
    ['help keys ', 'add list revoke'],
    ['list --n', '--ndjson --no-retry --no-input'],
    ['--profile local li', 'list'],
    ['--json keys r', 'revoke'],
    ['list --status ', 'available pending sold'],
    ['list --status=', '--status=available --status=pending --status=sold'],
    ['--profile ', 'prod staging local'],
    ['keys add till --plan ', 'free pro business enterprise'],
    ['list --limit ', ''],
    ['list --nothing=', ''],
    ['import ', ':files'],
    ['serve --seed=', ':files'],
    ['serve --seed ', ':files'],
    ['serve --data ', ':files'],
    ['store copy a ', ':files'],
    ['keys revoke t', ''],
    ['help serve ', 'keys faults network'],
    ['serve -- ', ':files'],
    ['serve --seed -- npm te', ':files'],
    // The position decides what is offered.
    ['list --sort=name --so', '', 'an option only once'],
    ['list --status=sold --sta', '--status', 'a repeatable option again'],
    ['--json list --js', '', 'an option only once, also before the command'],
    ['list -h --he', '', 'a short option counts as its long form'],
    ['serve --cors https://a.example --co', '--cors --color', 'a repeatable option again'],
    ['--base-url keys li', 'list', 'a value that looks like a command is a value'],
    ['add --idempotency-key --status --sta', '--status', 'a value that looks like an option is a value'],
    ['serve --seed --po', '--port', 'an option instead of an optional value'],
    ['serve --seed --plan f', 'free', 'the value of that option'],
    ['use prod ', globals, 'options for an empty word if no argument may follow'],
    ['login x ', `--no-verify ${globals}`, 'options for an empty word where text is allowed'],
    ['add Re', '', 'nothing for free text'],
    ['serve n', '', 'no shell command before --'],
    ['list -- --st', '', 'no options after --'],
    ['use -- l', 'local', 'arguments after --'],
    ['use ""', 'prod staging local', 'profiles for the quotes that PowerShell passes as an empty word'],
  ])('pets %s: %s', (line, words) => {
    expect(offered(...line.split(' '))).toEqual(words.split(' ').filter(Boolean));
  });

  test('include every command once', async () => {
    const { stdout } = await runInTerminal(['--help']);
    const listed = stdout.slice(stdout.indexOf('\nCommands:'), stdout.indexOf('\nTopics'));
    const names = [...listed.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name);
    expect(names).toContain('completion');
    expect(offered('')).toEqual(names);
    expect(offered()).toEqual(names);
  });
});

test.each(['bash', 'zsh', 'fish', 'powershell'])(
  '%s prints a script that says first how to install it',
  async (shell) => {
    const { code, stdout, stderr } = await runInTerminal(['completion', shell]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const head = stdout.slice(0, stdout.indexOf('\n\n'));
    expect(head).toMatch(
      /^(#compdef pets\n)?# Tab completion of pets for \w+\. To enable it in every new shell/,
    );
    expect(head).toContain(`pets completion ${shell}`);
  },
);

test('after -- it prints the candidates with descriptions, and what the shell should complete itself', async () => {
  const candidates = async (...words: string[]) =>
    (await runInTerminal(['completion', 'zsh', '--', ...words])).stdout;
  expect(await candidates('logo')).toBe('logout\tremove the API key from a profile\n:nothing\n');
  expect(await candidates('list', '--status', 'so')).toBe('sold\n:nothing\n');
  expect(await candidates('import', '')).toBe(':files\n');
  expect(await candidates('serve', '--faults', '')).toBe(':files\n');
});

test('the script for PowerShell calls pets, and its brackets and quotes are balanced', async () => {
  const { stdout } = await runInTerminal(['completion', 'powershell']);
  expect(stdout).toContain('Register-ArgumentCompleter -Native -CommandName pets -ScriptBlock {');
  expect(stdout).toContain("pets completion powershell '--' @words");
  const code = stdout.replace(/^\s*#.*$/gm, '').replace(/'[^'\n]*'|"[^"\n]*"/g, '');
  expect(code).not.toMatch(/['"]/);
  for (const pair of ['{}', '()', '[]']) {
    expect(code.split(pair[0] ?? '')).toHaveLength(code.split(pair[1] ?? '').length);
  }
});
