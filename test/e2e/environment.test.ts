import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, cp, mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { createFile, realFileSystem } from '../../src/system/file-system.ts';
import { gate } from '../helpers/gate.ts';
import { DIST, EXECUTABLE, freshMachine, machineWithServer, outputOf, petsInShell } from '../helpers/pets.ts';
import { reply, replyError } from '../helpers/scripted-server.ts';
import { testIf } from '../helpers/skip.ts';

// The machine may be odd: its Node, locale, variables, directories and owners of files. Tests of the built command.

describe.skipIf(EXECUTABLE !== undefined)('a Node that is too old', () => {
  test.each([
    ['18.20.8', 'pets needs Node 20.19 or newer; this is v18.20.8\n'],
    ['20.11.1', 'pets needs Node 20.19 or newer; this is v20.11.1\n'],
    ['21.7.3', 'pets needs Node 20.19 or newer (but not 21.7); this is v21.7.3\n'],
  ])('says so: %s', async (version, stderr) => {
    const machine = await freshMachine();
    const old = await machine.file(
      'old.cjs',
      `process.getBuiltinModule = undefined;
       for (const [name, value] of [['version', 'v${version}'], ['versions', { node: '${version}' }]])
         Object.defineProperty(process, name, { value });`,
    );
    const env = { NODE_OPTIONS: `--require ${old}` };
    for (const args of [['list'], ['--version']])
      expect(await machine.command(args, { env })).toEqual({ code: 1, stdout: '', stderr });
  });

  test('can read the entry, which has only syntax of 2015', async () => {
    const entry = await readFile(join(DIST, 'pets.js'), 'utf8');
    const asWritten = (target: ts.ScriptTarget) => {
      const compilerOptions = { target, module: ts.ModuleKind.CommonJS, strict: false, alwaysStrict: false };
      return ts.transpileModule(entry, { compilerOptions }).outputText;
    };
    expect(asWritten(ts.ScriptTarget.ES2015)).toBe(asWritten(ts.ScriptTarget.ESNext));
  });
});

test.skipIf(EXECUTABLE !== undefined)(
  'if pets is removed while a command waits, as by an update, the data is printed; later, the error names the cause',
  async () => {
    const { machine, server } = await machineWithServer(async ({ headers }, response) => {
      if (!headers.authorization) return replyError(response, 401);
      await rm(join(machine.home, 'dist', 'chunks'), { recursive: true });
      reply(response, 200, [{ id: 1, name: 'Rex', categoryId: 3, status: 'sold' }]);
    });
    const pets = async (line: string) => {
      await cp(DIST, join(machine.home, 'dist'), { recursive: true });
      return machine.shell(`"$NODE" dist/pets.js ${line}`, { stdin: 'pets_0123456789abcdefghij' });
    };
    expect((await pets('list --output list.txt')).code).toBe(0);
    expect(await readFile(join(machine.home, 'list.txt'), 'utf8')).toContain('Rex');
    const { code, stderr } = await pets(`login --profile staging --base-url ${server.url}`);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('error: a part of pets is missing, perhaps because of an update'),
    ]);
  },
);

test('serve --ephemeral needs neither a home directory nor the one for temporary files', async () => {
  const env = { TMPDIR: '/nonexistent', HOME: '/nonexistent', PETS_CONFIG_DIR: '' };
  const args = ['serve', '--ephemeral', '--', 'true'];
  expect(await (await freshMachine()).command(args, { env })).toMatchObject({ code: 0 });
});

test.each<[line: string, code: number, stderr: RegExp]>([
  ['profiles --json', 0, /^$/],
  ['serve --port 0 --data store', 1, /^error: .*uv_cwd\n.*if the current directory was deleted/],
  ['completion bash --output pets.sh', 1, /^error: cannot write pets\.sh: its directory does not exist\n/],
])(
  'in a deleted directory, pets %s ends with %i, and names the cause of an error',
  async (line, code, stderr) => {
    const ran = await (await freshMachine()).shell(`mkdir gone && cd gone && rmdir ../gone && pets ${line}`);
    expect(ran).toMatchObject({ code, stderr: expect.stringMatching(stderr) });
  },
);

test('SIGHUP does not end an import without a terminal, as after nohup', async () => {
  const [waiting, hungUp] = [gate(), gate()];
  const { machine, server } = await machineWithServer(async (request, response) => {
    if (request.method === 'GET') return reply(response, 200, []);
    waiting.open();
    await hungUp.opened;
    reply(response, 201, { id: server.requests.length, name: 'Rex', categoryId: 1, status: 'sold' });
  });
  const file = await machine.file('a.csv', 'name,category,status\nRex,1,sold\nRex,1,sold\n');
  const output = join(machine.home, 'results.csv');
  const child = machine.startCommand(['import', file, '--output', output], { stdin: '' });
  const { stderr } = outputOf(child);
  await waiting.opened;
  child.kill('SIGHUP');
  hungUp.open();
  expect(await once(child, 'close'), stderr).toEqual([0, null]);
  expect((await readFile(output, 'utf8')).split('\r\n')).toHaveLength(4);
});

const LOST = '-dac_override,-dac_read_search,-fowner,-chown';
/** Runs a command as root without its privileges, so that the owner, the group and the mode of a file count. */
const UNPRIVILEGED = `setpriv --bounding-set=${LOST} --inh-caps=${LOST}`;

testIf(
  process.getuid?.() === 0 && spawnSync(`${UNPRIVILEGED} true`, { shell: true }).status === 0,
  'only root with setpriv can create files of other owners',
)(
  'a configuration directory of another owner is used if the group may write to it, as in OpenShift; a profile that cannot be read is not a missing one; what root creates there belongs to the owner',
  async () => {
    const machine = await freshMachine();
    const config = join(machine.home, 'config');
    await mkdir(config);
    await chown(config, 1_234, 0);
    await chmod(config, 0o770);
    const options = { env: { PETS_CONFIG_DIR: config }, stdin: 'pets_key_0123456789' };
    const run = (line: string) => machine.shell(`${UNPRIVILEGED} ${petsInShell} ${line}`, options);
    const login = 'login --no-verify --base-url https://api.example.com/v1';
    for (const line of [login, 'use prod', 'serve --port 0 -- true'])
      expect(await run(line), line).toMatchObject({ code: 0 });
    const profile = join(config, 'prod.json');
    const modes = await Promise.all([profile, config].map(async (path) => (await stat(path)).mode & 0o777));
    expect(modes).toEqual([0o600, 0o770]);
    // Without its privileges, root cannot give the new file the owner of the old one.
    await chown(profile, 1_234, 0);
    await chmod(profile, 0o660);
    expect(await run(login)).toMatchObject({ code: 0 });
    expect((await stat(profile)).mode & 0o777).toBe(0o600);
    await chown(profile, 1_234, 1_234);
    const denied = expect.stringContaining('prod.json: permission denied');
    expect(await run('list')).toMatchObject({ code: 1, stderr: denied });
    await createFile(realFileSystem, join(config, 'new'), []);
    expect((await stat(join(config, 'new'))).uid).toBe(1_234);
    // An existing directory, which other programs may use too, keeps its mode.
    await Promise.all([chown(config, 0, 0), chown(profile, 0, 0), chmod(config, 0o1777)]);
    expect([(await run(login)).code, (await stat(config)).mode & 0o7777]).toEqual([0, 0o1777]);
  },
);
