import { once } from 'node:events';
import { chmod, chown, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import { DIST, EXECUTABLE, freshMachine, outputOf } from '../helpers/pets.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

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

describe('a variable that cannot be used has no effect', () => {
  test.each<Record<string, string>>([
    { LC_ALL: 'de_DE@euro', LANG: 'de_DE@euro' },
    { LC_ALL: 'de_DE.UTF-8', TZ: 'Nowhere/At all', COLUMNS: '-1', TMPDIR: '/nonexistent' },
    { LC_ALL: 'de_DE.UTF-8', HOME: 'relative', TMPDIR: '/dev/null', TZ: '', COLUMNS: 'wide' },
  ])('on list: %j', async (env) => {
    const machine = await freshMachine();
    const server = await scriptedServer((_, response) =>
      reply(response, 200, [{ id: 7, name: 'Rex', categoryId: 3, status: 'sold' }]),
    );
    const service = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_k', PETS_STATE_DIR: machine.home };
    const ran = await machine.command(['list', '--excel'], { env: { ...service, ...env } });
    expect(ran).toEqual({
      code: 0,
      stdout: '\ufeffid;name;categoryId;status\r\n7;Rex;3;sold\r\n',
      stderr: '',
    });
  });

  test('on serve --ephemeral, also without a home directory', async () => {
    const env = { TMPDIR: '/nonexistent', HOME: '/nonexistent', PETS_CONFIG_DIR: '' };
    const args = ['serve', '--ephemeral', '--', 'true'];
    expect(await (await freshMachine()).command(args, { env })).toMatchObject({ code: 0 });
  });

  test('the working directory may have been deleted', async () => {
    const machine = await freshMachine();
    const ran = await machine.shell('mkdir gone && cd gone && rmdir ../gone && pets profiles --json');
    expect(ran).toMatchObject({ code: 0, stderr: '' });
  });
});

test('SIGHUP does not end an import without a terminal, as after nohup', async () => {
  const machine = await freshMachine();
  const [waiting, hungUp] = [gate(), gate()];
  const server = await scriptedServer(async (request, response) => {
    if (request.method === 'GET') return reply(response, 200, []);
    waiting.open();
    await hungUp.opened;
    reply(response, 201, { id: server.requests.length, name: 'Rex', categoryId: 1, status: 'sold' });
  });
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_k' };
  const file = await machine.file('a.csv', 'name,category,status\nRex,1,sold\nRex,1,sold\n');
  const output = join(machine.home, 'results.csv');
  const child = machine.startCommand(['import', file, '--output', output], { env, stdin: '' });
  const { stderr } = outputOf(child);
  await waiting.opened;
  child.kill('SIGHUP');
  hungUp.open();
  expect(await once(child, 'close'), stderr).toEqual([0, null]);
  expect((await readFile(output, 'utf8')).split('\r\n')).toHaveLength(4);
});

// Only root can create files of other owners and become another user.
describe.skipIf(process.getuid?.() !== 0)('as another user', () => {
  /** Runs a line of sh with a random user id and group 0, as OpenShift does. */
  const asStranger = async (line: string, prepare?: (directory: string) => Promise<void>) => {
    const machine = await freshMachine();
    await chmod(machine.home, 0o755);
    const config = join(machine.home, 'config');
    await mkdir(config);
    await chown(config, 1_234, 0);
    await chmod(config, 0o770);
    await prepare?.(config);
    const env = { PETS_CONFIG_DIR: config, PETS_STATE_DIR: config, HOME: config, TMPDIR: config };
    const words = `exec setpriv --reuid 4321 --regid 0 --clear-groups -- sh -c`;
    const quoted = line.replaceAll('pets ', `"$NODE" ${join(DIST, 'pets.js')} `);
    return {
      config,
      ...(await machine.shell(`${words} '${quoted}'`, { env, stdin: 'pets_key_of_the_stranger' })),
    };
  };

  test('a configuration directory of another owner is used if the group may write to it', async () => {
    const { config, ...ran } = await asStranger(
      'pets login --no-verify --base-url https://api.example.com/v1 && pets use prod && pets serve --port 0 -- true',
    );
    expect(ran).toMatchObject({ code: 0 });
    const { mode, uid } = await stat(join(config, 'prod.json'));
    expect([mode & 0o777, uid]).toEqual([0o600, 4_321]);
  });

  test('a profile that another user owns is not a missing one', async () => {
    const ran = await asStranger('pets list', async (config) => {
      await writeFile(join(config, 'prod.json'), '{}', { mode: 0o600 });
    });
    expect([ran.code, ran.stderr]).toEqual([1, expect.stringContaining('prod.json: permission denied')]);
  });
});
