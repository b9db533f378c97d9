import { join } from 'node:path';
import { test } from 'vitest';
import { freshMachine, serveCommand } from '../helpers/pets.ts';
import { endUnderLoad, WRITERS } from '../helpers/stopping.ts';

// `npm run soak` kills the service more often.
const KILLS = Number(process.env['PETS_KILLS'] ?? 4);

test(
  `killed ${KILLS} times with ${WRITERS} writers: no acknowledged animal is lost or duplicated`,
  async () => {
    const machine = await freshMachine();
    const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
    await endUnderLoad(() => serveCommand(machine, args), 'SIGKILL', KILLS);
  },
  60_000 + KILLS * 20_000,
);
