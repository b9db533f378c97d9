import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { environmentVariables } from '../../src/cli/environment.ts';
import { exitCodeMeanings } from '../../src/cli/errors/exit-codes.ts';
import { errorCodes } from '../../src/contract/error-codes.ts';
import { freshMachine } from '../helpers/pets.ts';

const root = join(import.meta.dirname, '..', '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');

describe('the two commands', () => {
  test('are in the README, and scripts of the package', () => {
    const commands = [...readme.matchAll(/^npm ci && npm (?:run )?(\S+) /gm)].map(([, script]) => script);
    expect(commands).toEqual(['demo', 'test']);
    expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining(['demo', 'test']));
  });

  test('the first does the main job on a machine that never saw it, and leaves nothing behind', async () => {
    const machine = await freshMachine();
    // The build was made for this very test run.
    const [build, ...rest] = manifest.scripts.demo.split(' && ');
    expect(build).toBe('npm run build');
    const bin = join(root, 'node_modules', '.bin');
    const env = { ...machine.env, PATH: `${bin}${delimiter}${machine.env['PATH']}`, TMPDIR: machine.home };
    const { status, stdout } = spawnSync(rest.join(' && '), {
      cwd: root,
      env,
      shell: true,
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    const steps = stdout.split(/^\$ pets /m).slice(1);
    expect(steps.map((step) => step.split('\n')[0])).toEqual([
      'list --all',
      'list --status available --limit 5',
      "add 'Rex the Second' --category 1 --status pending",
      'get 67',
      'orders',
    ]);
    const rows = steps.map((step) => step.trim().split('\n').slice(1));
    expect(rows[0]).toHaveLength(66);
    expect(rows[1]).toHaveLength(5);
    expect(rows[2]).toEqual(['67\tRex the Second\t1\tpending']);
    expect(rows[3]).toEqual(['67\tRex the Second\t1\tpending']);
    expect(rows[4]?.length).toBeGreaterThanOrEqual(10);
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
    expect(await readdir(machine.configDirectory).catch(() => [])).toEqual([]);
  });
});

test('the table of exit codes is that of the program', async () => {
  const rows = [...readme.matchAll(/^\| (\d+) \| (.*) \|$/gm)].map(([, code, meaning]) => [
    Number(code),
    meaning,
  ]);
  expect(rows).toEqual(
    exitCodeMeanings.map(([code, meaning]) => [code, meaning.replace('--max-wait', '`--max-wait`')]),
  );
  const { stdout } = await (await freshMachine()).pets(['help', 'exit-codes']);
  for (const [code] of rows) expect(stdout).toMatch(new RegExp(`^ *${code}  `, 'm'));
});

test('the table of environment variables is that of the program, and has each one that the source reads', () => {
  const rows = [...readme.matchAll(/^\| ((?:`[A-Z_]+`(?:, )?)+) \| (.*) \|$/gm)].map((row) =>
    row.slice(1).map((cell) => cell.replaceAll('`', '')),
  );
  expect(rows).toEqual(environmentVariables.map((row) => [...row]));
  const source = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(root, 'src', name), 'utf8'))
    .join('\n');
  const read = [...source.matchAll(/\benv(?:\?\.)?\['((?:PETS|XDG|NO|FORCE)_\w+)'\]/g)].map(
    ([, name]) => name,
  );
  expect(read.length).toBeGreaterThan(8);
  const told = rows.flatMap(([names = '']) => names.split(', '));
  expect(told).toEqual(expect.arrayContaining([...new Set(read)]));
});

test('every command of the program is in the table, and every option of a command in its help', async () => {
  const machine = await freshMachine();
  const { stdout } = await machine.pets(['help']);
  const listed = stdout.slice(stdout.indexOf('Commands:'));
  const names = [...listed.matchAll(/^ {2}(?!pets )([a-z]+) /gm)].map(([, name]) => name as string);
  expect(names).toEqual(expect.arrayContaining(['list', 'add', 'get', 'orders', 'login', 'serve', 'keys']));
  for (const name of names) expect(readme).toMatch(new RegExp(`^\\| \`pets ${name}[ \`]`, 'm'));
  for (const [, name, usage] of readme.matchAll(/^\| `pets (list|add|login|profiles)\b([^`]*)`/gm)) {
    const help = (await machine.pets(['help', name as string])).stdout;
    const globals = stdout;
    for (const [option] of (usage ?? '').matchAll(/--[a-z-]+/g)) expect(help + globals).toContain(option);
  }
});

test('the options of serve in the README are those of its help', async () => {
  const { stdout } = await (await freshMachine()).pets(['help', 'serve']);
  const own = stdout.slice(0, stdout.indexOf('Global Options:'));
  const inHelp = [...own.matchAll(/^ {2}(--[a-z-]+)/gm)].map(([, option]) => option);
  const rows = readme.slice(readme.indexOf('## pets serve'), readme.indexOf('### Faults on demand'));
  const inReadme = [...rows.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(
    ([, cell]) => cell?.match(/--[a-z-]+/g) ?? [],
  );
  expect(inReadme).toEqual(expect.arrayContaining(inHelp));
  expect([...inHelp, '--json']).toEqual(expect.arrayContaining(inReadme));
});

test('the table of decisions has a row for each, D11 with every code and its status', () => {
  const rows = [...readme.matchAll(/^\| D(\d+) \| .* \|$/gm)];
  expect(rows.map(([, number]) => Number(number))).toEqual(Array.from({ length: 16 }, (_, i) => i + 1));
  const codes = [...(rows[10]?.[0].matchAll(/`(\w+)` (\d{3})/g) ?? [])];
  expect(Object.fromEntries(codes.map(([, code, status]) => [code, Number(status)]))).toEqual(errorCodes);
});
