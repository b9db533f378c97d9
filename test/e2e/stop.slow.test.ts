import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, serveCommand } from '../helpers/pets.ts';
import { creationBytes, endUnderLoad, openConnection, WRITERS } from '../helpers/stopping.ts';

// These tests stop `pets serve` while clients use it.

/** Waits until a stopping service accepts no more connections. */
async function untilItStops({ url }: { url: string }): Promise<void> {
  const { hostname, port } = new URL(url);
  const isAccepting = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(Number(port), hostname, () => resolve(true));
      socket.once('error', () => resolve(false)).once('close', () => socket.destroy());
      socket.once('connect', () => socket.destroy());
    });
  await expect.poll(isAccepting).toBe(false);
}

test(`SIGTERM with ${WRITERS} writers: every executed request got its response, and every acknowledged animal is kept`, async () => {
  const machine = await freshMachine();
  const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
  await endUnderLoad(() => serveCommand(machine, args));
});

describe('a stopping service', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'] as const)(
    'exits with 0 on %s, even with an idle client',
    async (signal) => {
      const service = await serveCommand(await freshMachine(), ['--ephemeral']);
      const connection = await openConnection(service);
      connection.socket.write(creationBytes(service, 'Rex'));
      expect(await connection.receive()).toMatchObject({ status: 201 });
      expect(await service.end(signal)).toEqual({ code: 0, signal: null });
      expect(await connection.receive()).toBeUndefined();
      expect(service.stderr()).toBe('');
    },
  );

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('exits at once on a second %s, with %i', async (signal, code) => {
    const machine = await freshMachine();
    const service = await serveCommand(machine, ['--ephemeral']);
    const connection = await openConnection(service);
    connection.socket.write(creationBytes(service, 'Rex').slice(0, -10));
    await settled(service);
    service.child.kill(signal);
    await untilItStops(service);
    expect(await service.end(signal)).toEqual({ code, signal: null });
    expect(await connection.receive()).toBeUndefined();
    // The ephemeral store is deleted.
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });

  /** Waits for a response on a new connection, so that the service has read what other connections sent before. */
  async function settled({ url }: { url: string }): Promise<void> {
    await (await fetch(new URL('/healthz', url))).text();
  }
});
