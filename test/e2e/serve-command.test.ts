import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';

// `pets serve -- CMD`: whose signals, whose exit code.

describe.skipIf(process.platform === 'win32')('pets serve -- CMD', () => {
  /** Starts it with a script as the command. */
  async function run(command: readonly string[], { quiet = true } = {}) {
    const machine = await freshMachine();
    const child = machine.start(['serve', '--ephemeral', ...(quiet ? ['--quiet'] : []), '--', ...command]);
    child.stdin?.end();
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream]?.setEncoding('utf8').on('data', (text) => {
        output[stream] += text;
      });
    }
    return {
      child,
      output,
      says: (text: string) =>
        expect.poll(() => output.stdout, { interval: 10, timeout: 10_000 }).toContain(text),
      async end() {
        const [code] = child.exitCode === null ? await once(child, 'close') : [child.exitCode];
        expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
        return code as number;
      },
    };
  }

  /** A program that stays, says so, and does this when a signal comes. */
  const onSignal = (signal: string, action: string): string[] => [
    process.execPath,
    '-e',
    `process.on('${signal}', async () => { ${action} }); setInterval(() => {}, 60_000); console.log('ready');`,
  ];

  test.each([
    ['exit 0', 0],
    ['exit 1', 1],
    ['exit 7', 7],
    ['exit 255', 255],
    ['kill -KILL $$', 137],
    ['kill -TERM $$', 143],
    ['kill -INT $$', 130],
    ['ulimit -c 0; kill -SEGV $$', 139],
  ])('sh -c %j ends it with %i', async (line, code) => {
    expect(await (await run(['sh', '-c', line])).end()).toBe(code);
  });

  test('a command that is not there is named', async () => {
    const { output, end } = await run(['no-such-command', 'x']);
    expect(await end()).toBe(1);
    expect(output).toEqual({
      stdout: '',
      stderr: expect.stringMatching(/^error: cannot run no-such-command: there is no such command\n {2}→ /),
    });
  });

  test('the output of the command is its own', async () => {
    const line = `printf 'out\\0\\n'; printf 'err' >&2`;
    const quiet = await run(['sh', '-c', line]);
    expect(await quiet.end()).toBe(0);
    expect(quiet.output).toEqual({ stdout: 'out\0\n', stderr: 'err' });
    const loud = await run(['sh', '-c', line], { quiet: false });
    expect(await loud.end()).toBe(0);
    expect(loud.output).toEqual({ stdout: 'out\0\n', stderr: expect.stringMatching(/^pets serve: .*\nerr/) });
  });

  test.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
  ] as const)('%s reaches the command, which decides', async (signal, code) => {
    const trapping = await run(onSignal(signal, 'process.exit(3)'));
    const plain = await run(onSignal('SIGUSR2', ''));
    await trapping.says('ready');
    await plain.says('ready');
    trapping.child.kill(signal);
    plain.child.kill(signal);
    expect(await trapping.end()).toBe(3);
    expect(await plain.end()).toBe(code);
  });

  test('serves until the command has ended', async () => {
    const request = `
      const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY };
      console.log((await fetch(process.env.PETS_BASE_URL + '/pets', { headers })).status);
      process.exit(0);`;
    const { child, output, says, end } = await run(onSignal('SIGTERM', request));
    await says('ready');
    child.kill('SIGTERM');
    expect(await end()).toBe(0);
    expect(output).toEqual({ stdout: 'ready\n200\n', stderr: '' });
  });

  test.each([
    ['SIGTERM', 'SIGTERM'],
    ['SIGTERM', 'SIGHUP'],
    ['SIGHUP', 'SIGTERM'],
  ] as const)('%s and then %s end a command that will not', async (first, second) => {
    const { child, says, end } = await run(onSignal(first, `console.log('heard')`));
    await says('ready');
    child.kill(first);
    await says('heard');
    child.kill(second);
    expect(await end()).toBe(137);
  });

  test('SIGINT is the command’s to count', async () => {
    const count = `globalThis.count = (globalThis.count ?? 0) + 1; console.log(count); if (count === 4) process.exit(9);`;
    const { child, says, end } = await run(onSignal('SIGINT', count));
    await says('ready');
    for (let i = 1; i < 4; i++) {
      child.kill('SIGINT');
      await says(`${i}\n`);
    }
    child.kill('SIGINT');
    expect(await end()).toBe(9);
  });
});
