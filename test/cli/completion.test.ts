import { describe, expect, test } from 'vitest';
import { completionSpec } from '../../src/cli/commands/completion.ts';
import { commands } from '../../src/cli/commands/index.ts';
import { complete } from '../../src/cli/completion/complete.ts';
import { runInTerminal } from '../helpers/context.ts';

const table = completionSpec(commands);
/** The candidates for a line: words, or what the shell completes itself. */
const offered = (...words: string[]) => {
  const offer = complete(table, words);
  return offer.shell ?? offer.words.map(({ value }) => value);
};

const profiles = ['prod', 'staging', 'local'];
const globals = [
  '--profile',
  '--base-url',
  '--json',
  '--max-wait',
  '--timeout',
  '--no-retry',
  '--strict',
  '--debug',
  '--color',
  '--no-input',
  '--help',
  '--version',
];

describe('candidates', () => {
  /** A line without `pets`, and the candidates; a line that ends with a space ends with an empty word. */
  test.each<[line: string, offered: string]>([
    ['li', 'list'],
    ['p', 'profiles'],
    ['x', ''],
    ['keys ', 'add list revoke'],
    ['keys add --pl', '--plan'],
    ['use ', 'prod staging local'],
    ['use s', 'staging'],
    ['use --json s', 'staging'],
    ['completion ', 'bash zsh fish powershell'],
    ['help l', 'list login logout'],
    ['help keys ', 'add list revoke'],
    ['list --n', '--ndjson --no-retry --no-input'],
    ['--profile local li', 'list'],
    ['--profile=local li', 'list'],
    ['--json keys r', 'revoke'],
    ['list --status ', 'available pending sold'],
    ['list --status p', 'pending'],
    ['list --status=', '--status=available --status=pending --status=sold'],
    ['list --status=p', '--status=pending'],
    ['--profile ', 'prod staging local'],
    ['list --all --profile l', 'local'],
    ['--color ', 'auto always never'],
    ['add --format ', 'csv ndjson json'],
    ['keys add till --plan ', 'free pro business enterprise'],
    ['list --limit ', ''],
    ['list --limit=', ''],
    ['list --all=', ''],
    ['list --nothing=', ''],
  ])('pets %s: %s', (line, words) => {
    expect(offered(...line.split(' '))).toEqual(words.split(' ').filter(Boolean));
  });

  test.each([
    ['add --from ', 'files'],
    ['add --from -', 'files'],
    ['add --from=', 'files'],
    ['add --from=a/b=c', 'files'],
    ['serve --seed ', 'files'],
    ['serve --data ', 'directories'],
    ['keys list --data x', 'directories'],
    ['serve -- ', 'commands'],
    ['serve --seed -- npm te', 'commands'],
    ['serve -- npm --x', 'commands'],
  ])('pets %s: %s, which the shell completes', (line, kind) => {
    expect(offered(...line.split(' '))).toBe(kind);
  });

  test('include the help topics', () => {
    expect(offered('help', 'e')).toEqual(expect.arrayContaining(['exit-codes']));
  });

  test('include every command once', async () => {
    const { stdout } = await runInTerminal(['--help']);
    const listed = stdout.slice(stdout.indexOf('\nCommands:'), stdout.indexOf('\nHelp:'));
    const names = [...listed.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name);
    expect(names).toContain('completion');
    expect(offered('')).toEqual(names);
  });

  test.each(['list', 'add', 'get', 'orders', 'login', 'logout', 'profiles', 'use', 'serve', 'keys add'])(
    'include every option in the help of %s, and the global ones',
    async (name) => {
      const { stdout } = await runInTerminal(['help', ...name.split(' ')]);
      const shown = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, option]) => option);
      expect(new Set(offered(...name.split(' '), '-'))).toEqual(new Set([...shown, ...globals]));
    },
  );
});

describe('positions', () => {
  test('an option is offered only once, unless it is repeatable', () => {
    expect(offered('list', '--status=sold', '--sta')).toEqual([]);
    expect(offered('--json', 'list', '--js')).toEqual([]);
    expect(offered('serve', '--cors', 'https://a.example', '--co')).toEqual(['--cors', '--color']);
  });

  test('a short option counts as its long form', () => {
    expect(offered('list', '-h', '--he')).toEqual([]);
  });

  test('a value that looks like a command or an option is a value', () => {
    expect(offered('--base-url', 'keys', 'li')).toEqual(['list']);
    expect(offered('add', '--idempotency-key', '--status', '--sta')).toEqual(['--status']);
  });

  test('an option may follow instead of an optional value', () => {
    expect(offered('serve', '--seed', '--po')).toEqual(['--port']);
    expect(offered('serve', '--seed', '--plan', 'f')).toEqual(['free']);
  });

  test('for an empty word where only free text is allowed, options are offered', () => {
    expect(offered('list', '')).toEqual(expect.arrayContaining(['--status', '--all', ...globals]));
    expect(offered('get', '1', '')).toEqual(globals);
    expect(offered('use', 'prod', '')).toEqual(globals);
    expect(offered('add', 'Re')).toEqual([]);
  });

  test('a shell command is completed only after --, and options only before it', () => {
    expect(offered('serve', 'n')).toEqual([]);
    expect(offered('list', '--', '--st')).toEqual([]);
    expect(offered('use', '--', 'l')).toEqual(['local']);
  });

  test('no words, or the quotes that PowerShell passes, count as an empty word', () => {
    expect(offered()).toEqual(offered(''));
    expect(offered('use', '""')).toEqual(profiles);
  });
});
