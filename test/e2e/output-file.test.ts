import { spawnSync } from 'node:child_process';
import { chmod, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PET } from '../helpers/client.ts';
import { respondWith } from '../helpers/in-terminal.ts';
import { freshMachine, type Machine, machineWithServer, petsInShell, serve } from '../helpers/pets.ts';
import { testIf } from '../helpers/skip.ts';

const OLD = 'the old contents\n';
const isRoot = process.getuid?.() === 0;

const machineWithList = () => machineWithServer(respondWith([PET]));

/** The names in the home directory, without those of the program's own directories. */
const namesIn = async ({ home }: Machine) => (await readdir(home)).filter((name) => !name.startsWith('.'));

test('a new file has the mode that the umask allows; a replaced file keeps its mode, and for root its owner', async () => {
  const { machine } = await machineWithList();
  const replaced = await machine.file('replaced', OLD);
  await chmod(replaced, 0o664);
  const own = isRoot ? 'chown 65534:65534 replaced;' : '';
  const { code } = await machine.shell(
    `umask 027; ${own} pets list --output new && pets list --output replaced`,
  );
  const [created, kept] = await Promise.all(
    ['new', 'replaced'].map((name) => stat(join(machine.home, name))),
  );
  expect([code, (created?.mode ?? 0) & 0o777, (kept?.mode ?? 0) & 0o777]).toEqual([0, 0o640, 0o664]);
  if (isRoot) expect([kept?.uid, kept?.gid]).toEqual([65534, 65534]);
});

test.each(['/dev/stdout', '/proc/self/fd/3'])(
  '--output %s does not replace a file that the shell opened for appending',
  async (output) => {
    const { machine } = await machineWithList();
    const file = await machine.file('log', OLD);
    const { code, stderr } = await machine.shell(`pets list --output ${output} >> log 3>&1`);
    expect([code, await readFile(file, 'utf8')]).toEqual([1, OLD]);
    expect(stderr).toContain('use > instead');
  },
);

test.each([
  ['', '> /dev/full', /no space left/],
  ['', '| true', /the pipe was closed/],
  ['--output no/key', '', /its directory does not exist/],
])('pets keys add %s %s: the error says whether the lost key exists', async (option, end, reason) => {
  const machine = await freshMachine();
  await serve(machine);
  const add = `pets keys add till --plan free ${option} 2> errors`;
  const { stderr } = await machine.shell(`{ ${add}; echo $? >&2; cat errors >&2; } ${end}`);
  const isAdded = (await machine.pets(['keys', 'list'])).stdout.includes('till');
  expect(stderr).toMatch(reason);
  expect([stderr.slice(0, 2), stderr.endsWith('revoke it: pets keys revoke till\n')]).toEqual([
    '1\n',
    isAdded,
  ]);
});

test('a limit of the file size leaves the old file', async () => {
  const { machine } = await machineWithServer(respondWith([{ ...PET, name: 'x'.repeat(10_000) }]));
  const file = await machine.file('animals', OLD);
  const { code, stderr } = await machine.shell('ulimit -f 1; pets list --output animals');
  expect([code, stderr]).toEqual([1, expect.stringContaining('cannot write animals: ')]);
  expect([await readFile(file, 'utf8'), await namesIn(machine)]).toEqual([OLD, ['animals']]);
});

/** Runs a command without root's privilege to write every file. */
const UNPRIVILEGED =
  'setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search';
const canDropPrivilege = !isRoot || spawnSync(`${UNPRIVILEGED} true`, { shell: true }).status === 0;

testIf(process.platform !== 'win32' && canDropPrivilege, 'root without setpriv can write every file').each([
  ['the file', 0o755, 0o444],
  ['its directory', 0o555, 0o644],
])('nothing is sent if %s is protected', async (_name, directoryMode, fileMode) => {
  const { machine, server } = await machineWithList();
  const file = await machine.file('data/animals', OLD);
  await chmod(file, fileMode);
  await chmod(join(machine.home, 'data'), directoryMode);
  const line = `${isRoot ? UNPRIVILEGED : ''} ${petsInShell} list --output data/animals`;
  const { code, stderr } = await machine.shell(line);
  await chmod(join(machine.home, 'data'), 0o755);
  expect([code, await readFile(file, 'utf8'), server.requests]).toEqual([1, OLD, []]);
  expect(stderr).toContain('animals: permission denied\n  → choose a file that you may change');
});
