import { copyFile, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Prerendered } from '../../src/cli/fast-path.ts';
import { commands } from '../../src/cli/main.ts';
import { KEY } from '../helpers/client.ts';
import { runInTerminal } from '../helpers/context.ts';
import { DIST, EXECUTABLE, freshMachine } from '../helpers/pets.ts';
import { testIf } from '../helpers/skip.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// The built entry prints some output without loading the program. That output must be what the program prints.

const { pages }: Prerendered = JSON.parse(await readFile(join(DIST, 'prerendered.json'), 'utf8'));
const prerendered = pages.flatMap((page) =>
  page.arguments.map((key) => ({ argv: key.split('\0').slice(0, -1), text: page.text })),
);

/** The output of `main()`. */
const program = async (argv: readonly string[]) => {
  const { code, stdout, stderr } = await runInTerminal(argv);
  return { code, stdout, stderr };
};

/** Runs the built command in a directory that has only its entry, package.json and these files of dist. */
async function runPart(line: string, files: readonly string[]) {
  const directory = await temporaryDirectory();
  // Copy the entry, because it looks for the other files in its own directory. A link would lead to dist/.
  for (const file of ['pets.js', 'package.json']) await copyFile(join(DIST, file), join(directory, file));
  for (const file of files) await symlink(join(DIST, file), join(directory, file));
  const env = { ENTRY: join(directory, 'pets.js') };
  return (await freshMachine()).shell(`"$NODE" "$ENTRY" ${line}`, { env });
}

describe('a prerendered output', () => {
  test('exists for the version, the help of every command and topic, and the completion script of every shell', async () => {
    const names = commands.flatMap((entry) => [
      entry.name,
      ...('commands' in entry ? entry.commands.map(({ name }) => `${entry.name} ${name}`) : []),
    ]);
    const lines = [
      ...['', 'help', '--help', '-h', '--version', '-V', 'help exit-codes'],
      ...names.filter((name) => name !== 'help').flatMap((name) => [`help ${name}`, `${name} --help`]),
      ...['bash', 'zsh', 'fish'].map((name) => `completion ${name}`),
    ];
    expect(prerendered.map(({ argv }) => argv.join(' '))).toEqual(expect.arrayContaining(lines));
  });

  test.each(prerendered)('is what the program prints: $argv', async ({ argv, text: stdout }) => {
    expect(await program(argv)).toEqual({ code: 0, stdout, stderr: '' });
  });

  const [PRERENDERED, PROGRAM] = [['prerendered.json'], ['program.js', 'chunks']];

  test.each([
    ['--version', PRERENDERED],
    ['list --help', PRERENDERED],
    ['completion zsh', PRERENDERED],
    // The program replaces what the build has not written.
    ['--help', PROGRAM],
  ])('is complete: pets %s needs no other files than %j', async (line, files) => {
    expect(await runPart(line, files)).toEqual(await program(line.split(' ')));
  });

  test.each([
    { argv: [''] },
    { argv: ['list', '--help', '--limit', 'x'] },
    { argv: ['--debug', '--version'] },
  ])('is not used for other arguments: $argv', async ({ argv }) => {
    expect(await (await freshMachine()).command(argv)).toEqual(await program(argv));
  });
});

test('the entry responds to Tab without the program', async () => {
  const tab = (line: string) => runPart(`completion ${line}`, ['prerendered.json']);
  expect(await tab("bash -- list --status ''")).toEqual({
    code: 0,
    stdout: 'available\npending\nsold\n',
    stderr: '',
  });
  expect((await tab('fish --')).stdout).toContain('\nlogout\n');
});

// Appends the files that a process has loaded to a list when the process exits.
const REPORT = `
process.on('exit', () => require('node:fs').appendFileSync(process.env.LOADED, Object.keys(require.cache).join('\\n') + '\\n'));
`;

testIf(EXECUTABLE === undefined, 'an executable ignores NODE_OPTIONS').each([
  ['list', false, 6],
  ['serve --ephemeral --quiet -- node --version', false, 0],
  ['keys list --data postgres://pets@127.0.0.1:9/pets', true, 1],
])('pets %s loads the driver of the database: %s', async (line, expected, code) => {
  const machine = await freshMachine();
  const loaded = await machine.file('loaded.txt', '');
  const ran = await machine.command(line.split(' '), {
    env: {
      NODE_OPTIONS: `--require ${await machine.file('report.cjs', REPORT)}`,
      LOADED: loaded,
      PETS_BASE_URL: 'http://127.0.0.1:9/v1',
      PETS_API_KEY: KEY,
      // The build must ignore this variable, with which pg looks for a driver that is not part of the package.
      NODE_PG_FORCE_NATIVE: '1',
    },
  });
  expect(ran).toMatchObject({ code });
  const files = (await readFile(loaded, 'utf8')).split('\n');
  expect(files).toContainEqual(expect.stringMatching(/dist.pets\.js$/));
  expect(files.some((file) => file.includes(join('chunks', 'postgres')))).toBe(expected);
});
