import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, PETS, serve } from '../helpers/pets.ts';

/** Starts the service where no file may grow beyond 8 KiB: its journal cannot be written any more then. */
async function serveWithFullDisk(
  machine: Machine,
  args: string,
): Promise<{ url: string; key: string; ended: Promise<Ended> }> {
  const command = `ulimit -f 8; exec "${process.execPath}" "${PETS}" serve --json --port 0 --plan enterprise ${args}`;
  const child = spawn('bash', ['-c', command], { env: machine.env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number, stderr }));
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  return { ...JSON.parse(String(line).split('\n')[0] ?? ''), ended };
}

type Ended = { code: number; stderr: string };

const body = JSON.stringify({ name: 'x'.repeat(200), categoryId: 1 });

describe.skipIf(process.platform === 'win32')('a store that can write no more', () => {
  test('stops the server with a message and a code, and loses nothing that was acknowledged', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const { url, key, ended } = await serveWithFullDisk(machine, `--data "${data}"`);
    const acknowledged: number[] = [];
    for (let i = 0; i < 200; i++) {
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const answer = await fetch(`${url}/pets`, { method: 'POST', headers, body }).catch(() => undefined);
      if (answer?.status !== 201) break;
      acknowledged.push(((await answer.json()) as { id: number }).id);
    }
    const { code, stderr } = await ended;
    expect(code).toBe(1);
    const last = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect(last.error).toMatchObject({
      code: 'store_error',
      message: expect.stringContaining(join(data, 'journal.ndjson')),
    });
    expect(last.error.hint).toMatch(/disk/);
    expect(acknowledged.length).toBeGreaterThan(5);
    expect(acknowledged.length).toBeLessThan(60);

    const again = await serve(machine, ['--data', data]);
    const { stdout } = await machine.pets(['list', '--all', '--json', '--profile', 'local']);
    expect(JSON.parse(stdout).map((pet: { id: number }) => pet.id)).toEqual(acknowledged);
    await again.end('SIGTERM');
  });

  test('ends the command that runs against it', async () => {
    const machine = await freshMachine();
    const script = `
      const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
      for (let i = 0; i < 200; i++) {
        await fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body: ${JSON.stringify(body)} }).catch(() => {});
      }
      setTimeout(() => {}, 60_000);`;
    const child = spawn(
      'bash',
      [
        '-c',
        `ulimit -f 8; exec "${process.execPath}" "${PETS}" serve --ephemeral --plan enterprise -- "${process.execPath}" --input-type=module -e "$SCRIPT"`,
      ],
      { env: { ...machine.env, SCRIPT: script }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect(stderr).toMatch(/error: cannot write .*journal\.ndjson.*\n {2}→ .*\n$/);
  });
});
