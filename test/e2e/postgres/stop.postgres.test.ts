import { test } from 'vitest';
import { freshMachine, serveCommand } from '../../helpers/pets.ts';
import { createKey } from '../../helpers/postgres/fleet.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { endUnderLoad, WRITERS } from '../../helpers/stopping.ts';

test(`SIGTERM with ${WRITERS} writers on PostgreSQL: every executed request got its response, and every acknowledged animal is kept`, async () => {
  const machine = await freshMachine();
  const url = await freshDatabase();
  const args = ['--data', url, '--no-profile'];
  await (await serveCommand(machine, args)).end('SIGTERM');
  const key = await createKey(url, { name: 'load', plan: 'enterprise' });
  await endUnderLoad(async () => ({ ...(await serveCommand(machine, args)), key }));
});
