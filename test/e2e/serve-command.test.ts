import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { expectNoLeaks } from '../helpers/failure.ts';
import { freshMachine, outputOf } from '../helpers/pets.ts';

// Tests of the environment, streams, signals and exit code of `pets serve -- CMD`.

describe.skipIf(process.platform === 'win32')('pets serve -- CMD', () => {
  /** Starts `pets serve --ephemeral -- <command>`. */
  async function run(command: readonly string[], { quiet = true } = {}) {
    const machine = await freshMachine();
    const options = quiet ? ['--quiet'] : [];
    const child = machine.startCommand(['serve', '--ephemeral', ...options, '--', ...command], { stdin: '' });
    const output = outputOf(child);
    return {
      child,
      output,
      /** Waits until the command has printed a text. */
      prints: (text: string) => expect.poll(() => output.stdout).toContain(text),
      /** Waits for the end, checks that the ephemeral store was deleted, and returns the exit code. */
      async end() {
        const [code] = child.exitCode === null ? await once(child, 'close') : [child.exitCode];
        expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
        return code as number;
      },
    };
  }

  /** A program that prints `ready`, runs until it is killed, and executes the action when it gets the signal. */
  const onSignal = (signal: string, action: string): string[] => [
    process.execPath,
    '-e',
    `process.on('${signal}', async () => { ${action} }); setInterval(() => {}, 60_000); console.log('ready');`,
  ];

  test.each([
    ['exit 7', 7],
    ['kill -KILL $$', 137],
    ['ulimit -c 0; kill -SEGV $$', 139],
  ])('sh -c %j: exit code %i', async (line, code) => {
    expect(await (await run(['sh', '-c', line])).end()).toBe(code);
  });

  test('a command that does not exist is reported, with exit code 127 as in a shell', async () => {
    const { output, end } = await run(['no-such-command', 'x']);
    expect(await end()).toBe(127);
    expectNoLeaks(output);
    expect(output).toEqual({
      stdout: '',
      stderr: expect.stringMatching(/^error: cannot run no-such-command: command not found\n {2}→ /),
    });
  });

  test('a command that cannot be executed is reported, with exit code 126 as in a shell', async () => {
    const machine = await freshMachine();
    const file = await machine.file('not-executable', 'echo hello\n');
    const { code, stderr } = await machine.command(['serve', '--ephemeral', '--quiet', '--', file]);
    expect([code, stderr]).toEqual([
      126,
      expect.stringMatching(/^error: cannot run .*: permission denied\n {2}→ /),
    ]);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'a %s to the process group reaches the command once, if stdin is not a terminal',
    async (signal) => {
      const machine = await freshMachine();
      // If a second signal arrives, it does so long before the command ends.
      const script = `let count = 0; process.on('${signal}', () => { if (count++ === 0) setTimeout(() => { console.log('signals: ' + count); process.exit(0); }, 300); }); setInterval(() => {}, 60_000); console.log('ready');`;
      const args = ['serve', '--ephemeral', '--quiet', '--', process.execPath, '-e', script];
      const child = machine.startCommand(args, { stdin: '', hasOwnGroup: true });
      const output = outputOf(child);
      await expect.poll(() => output.stdout).toContain('ready');
      process.kill(-(child.pid as number), signal);
      const [code] = await once(child, 'close');
      expect([code, output.stdout]).toEqual([0, 'ready\nsignals: 1\n']);
    },
  );

  test.each([
    [true, /^err$/],
    [false, /^(pets serve: .*\n){2}err/],
  ])('stdout and stderr of the command are passed through unchanged; quiet: %s', async (quiet, stderr) => {
    const { output, end } = await run(['sh', '-c', `printf 'out\\0\\n'; printf 'err' >&2`], { quiet });
    expect(await end()).toBe(0);
    expect(output).toEqual({ stdout: 'out\0\n', stderr: expect.stringMatching(stderr) });
  });

  test.each([
    ['SIGTERM', 'SIGTERM', 143],
    ['SIGHUP', 'SIGHUP', 129],
    ['SIGINT', 'SIGINT', 130],
    ['SIGQUIT', 'SIGTERM', 143],
    ['SIGUSR2', 'SIGTERM', 143],
  ] as const)('after %s the command gets %s, and its exit code is returned', async (signal, passed, code) => {
    const trapping = await run(onSignal(passed, 'process.exit(3)'));
    const plain = await run(onSignal('SIGALRM', ''));
    await trapping.prints('ready');
    await plain.prints('ready');
    trapping.child.kill(signal);
    plain.child.kill(signal);
    expect(await trapping.end()).toBe(3);
    expect(await plain.end()).toBe(code);
  });

  test('serves until the command has ended, also after a signal', async () => {
    const request = `
      const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY };
      console.log((await fetch(process.env.PETS_BASE_URL + '/pets', { headers })).status);
      process.exit(0);`;
    const { child, output, prints, end } = await run(onSignal('SIGTERM', request));
    await prints('ready');
    child.kill('SIGTERM');
    expect(await end()).toBe(0);
    expect(output).toEqual({ stdout: 'ready\n200\n', stderr: '' });
  });

  test('every SIGINT is passed to the command', async () => {
    const count = `globalThis.count = (globalThis.count ?? 0) + 1; console.log(count); if (count === 4) process.exit(9);`;
    const { child, prints, end } = await run(onSignal('SIGINT', count));
    await prints('ready');
    for (let i = 1; i < 4; i++) {
      child.kill('SIGINT');
      await prints(`${i}\n`);
    }
    child.kill('SIGINT');
    expect(await end()).toBe(9);
  });

  test('the command gets the URL, a key of the given plan, stdin and an ephemeral store; profile local is unchanged', async () => {
    const machine = await freshMachine();
    const profile = { baseUrl: 'http://127.0.0.1:9/v1', key: 'mine' };
    await machine.saveProfile('local', profile);
    const script = `
      const { PETS_BASE_URL: url, PETS_API_KEY: key } = process.env;
      const stores = require('node:fs').readdirSync(process.env.TMPDIR).filter((name) => name.startsWith('pets-ephemeral-'));
      fetch(url + '/pets?limit=1', { headers: { Authorization: 'Bearer ' + key } }).then(async (response) => {
        const limit = response.headers.get('x-ratelimit-limit');
        console.log(response.status, limit, (await response.json()).length, stores.length);
        process.stdin.pipe(process.stdout);
      });`;
    const args = ['serve', '--ephemeral', '--seed', '--plan', 'free', '--json'];
    const ran = await machine.command([...args, '--', process.execPath, '-e', script], {
      stdin: 'through\n',
    });
    expect(ran).toMatchObject({ code: 0, stdout: '200 60 1 1\nthrough\n' });
    const saved = await readFile(join(machine.configDirectory, 'local.json'), 'utf8');
    expect(JSON.parse(saved)).toEqual(profile);
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });
});
