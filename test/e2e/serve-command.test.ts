import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, outputOf, type RunOptions } from '../helpers/pets.ts';

// Tests of the environment, streams, signals and exit code of `pets serve -- CMD`. test/cli/run-command.test.ts has those
// that would need delays or a terminal here.

describe.skipIf(process.platform === 'win32')('pets serve -- CMD', () => {
  /** Starts `pets serve --ephemeral --quiet -- <command>`. */
  async function run(command: readonly string[], options: RunOptions = {}) {
    const machine = await freshMachine();
    const args = ['serve', '--ephemeral', '--quiet', '--', ...command];
    const child = machine.startCommand(args, { stdin: '', ...options });
    const output = outputOf(child);
    return {
      child,
      output,
      /** Waits until the command has printed a text. */
      prints: (text: string) => expect.poll(() => output.stdout).toContain(text),
      /** Waits for the end, checks that the ephemeral store was deleted, and returns the exit code or signal. */
      async end(): Promise<number | NodeJS.Signals | null> {
        if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
        expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
        return child.exitCode ?? child.signalCode;
      },
    };
  }

  /** A program that prints `ready`, runs until it is killed, and executes the action when it gets the signal. */
  const onSignal = (signal: string, action: string): string[] => [
    process.execPath,
    '-e',
    `process.on('${signal}', async () => { ${action} }); setInterval(() => {}, 60_000); console.log('ready');`,
  ];

  test.each<[code: number, command: string[], stdout: string, stderr: RegExp]>([
    [7, ['sh', '-c', "printf 'out\\0\\n'; printf 'err' >&2; exit 7"], 'out\0\n', /^err$/],
    [0, ['sh', '-c', 'printf %s "$NO_PROXY $no_proxy"'], ',127.0.0.1,localhost ,127.0.0.1,localhost', /^$/],
    [139, ['sh', '-c', 'ulimit -c 0; kill -SEGV $$'], '', /^$/],
    [127, ['none', 'x'], '', /^error: cannot run none: command not found\n {2}→ .*\n$/],
    [126, ['/etc/passwd'], '', /^error: cannot run .*: permission denied\n {2}→ .*\n$/],
    [126, ['/etc/passwd/x'], '', /^error: cannot run .*: not a directory\n {2}→ .*\n$/],
  ])('exits with %i after %j, with its output or an error', async (code, command, stdout, stderr) => {
    const { output, end } = await run(command);
    expect([await end(), output]).toEqual([code, { stdout, stderr: expect.stringMatching(stderr) }]);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)(
    'gives the command a %s to the process group once, if stdin is not a terminal',
    async (signal) => {
      // If a second signal arrives, it does so long before the command ends.
      const count = `globalThis.count = (globalThis.count ?? 0) + 1; if (count === 1) setTimeout(() => { console.log(count); process.exit(0); }, 300);`;
      const { child, output, prints, end } = await run(onSignal(signal, count), { detached: true });
      await prints('ready');
      process.kill(-(child.pid as number), signal);
      expect([await end(), output.stdout]).toEqual([0, 'ready\n1\n']);
    },
  );

  test.each([
    ['SIGTERM', 'SIGTERM', 143],
    ['SIGHUP', 'SIGHUP', 129],
    ['SIGINT', 'SIGINT', 'SIGINT'],
    ['SIGQUIT', 'SIGTERM', 143],
    ['SIGUSR2', 'SIGTERM', 143],
  ] as const)('after %s gives the command %s, and returns its exit code', async (signal, passed, code) => {
    const [trapping, plain] = await Promise.all([
      run(onSignal(passed, 'process.exit(3)')),
      run(onSignal('SIGALRM', '')),
    ]);
    await trapping.prints('ready');
    await plain.prints('ready');
    trapping.child.kill(signal);
    plain.child.kill(signal);
    expect([await trapping.end(), await plain.end()]).toEqual([3, code]);
  });

  test('gives the command every SIGINT, and serves until the command has ended', async () => {
    const request = `
      globalThis.count = (globalThis.count ?? 0) + 1;
      const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY };
      console.log(count, (await fetch(process.env.PETS_BASE_URL + '/pets', { headers })).status);
      if (count === 3) process.exit(9);`;
    const { child, prints, end } = await run(onSignal('SIGINT', request));
    await prints('ready');
    for (let i = 1; i <= 3; i++) {
      child.kill('SIGINT');
      await prints(`${i} 200\n`);
    }
    expect(await end()).toBe(9);
  });

  test('gives the command the URL, a key of the plan, stdin and an ephemeral store, and leaves profile local unchanged', async () => {
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
    const args = ['serve', '--ephemeral', '--seed', '--plan', 'free', '--json', '--', process.execPath];
    const ran = await machine.command([...args, '-e', script], { stdin: 'through\n' });
    expect(ran).toMatchObject({ code: 0, stdout: '200 60 1 1\nthrough\n' });
    const saved = await readFile(join(machine.configDirectory, 'local.json'), 'utf8');
    expect(JSON.parse(saved)).toEqual(profile);
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });
});
