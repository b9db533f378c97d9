import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, serveCommand } from '../helpers/pets.ts';
import { creationBytes, endUnderLoad, openConnection, WRITERS } from '../helpers/stopping.ts';

// These tests stop `pets serve` while clients use it.

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
    const isAccepting = () => fetch(service.url).then(Boolean, () => false);
    // A response on another connection shows that the service has read what was sent before.
    expect(await isAccepting()).toBe(true);
    service.child.kill(signal);
    await expect.poll(isAccepting).toBe(false);
    expect(await service.end(signal)).toEqual({ code, signal: null });
    expect(await connection.receive()).toBeUndefined();
    // The ephemeral store is deleted.
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });
});
