import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/system/clock.ts';
import { report } from '../helpers/cases.ts';
import { freshMachine } from '../helpers/pets.ts';
import { startReal } from '../helpers/real-service.ts';

// `npm run soak` adds more rows, and kills the command more often.
const ROWS = Number(process.env['PETS_IMPORT_ROWS'] ?? 60);
const KILLS = Number(process.env['PETS_IMPORT_KILLS'] ?? 4);

test.each([
  ['run again', false],
  ['after the file was changed, run again with --skip-added', true],
])(
  `${ROWS} rows, killed ${KILLS} times with -9 and %s: every row is there exactly once`,
  async (_, isChanged) => {
    let answered = 0;
    let onEach = () => {};
    const service = await startReal({
      clock: systemClock,
      sleep: (milliseconds) => sleep(milliseconds),
      // Delay responses, so that a killed process often leaves requests to which the service has not responded yet.
      faults: { latency: { min: 0, max: 4 }, seed: 1 },
      onAccess: ({ method }) => {
        if (method === 'POST') answered++;
        onEach();
      },
    });
    const key = await service.makeKey({ name: 'bulk', plan: 'enterprise' });
    const machine = await freshMachine();
    await machine.saveProfile('prod', { baseUrl: `http://127.0.0.1:${service.port()}/v1`, key });
    const names = Array.from({ length: ROWS }, (_, i) => `animal ${i + 1}`);
    const write = () =>
      machine.file('animals.csv', `name,category\n${names.map((name) => `${name},7\n`).join('')}`);
    const args = ['import', await write(), '--json'];

    for (let kill = 0; kill < KILLS; kill++) {
      if (isChanged && kill === 1) {
        // Change the last rows, which cannot have been added yet.
        names.splice(-2, 2, 'corrected', 'new');
        await write();
        args.push('--skip-added');
      }
      const child = machine.startCommand(args, { stdin: '' });
      child.stdout?.resume();
      child.stderr?.resume();
      const until = answered + 1 + Math.floor(Math.random() * ((2 * ROWS) / (KILLS + 1) - 1));
      await new Promise<void>((resolve) => {
        onEach = () => answered >= until && resolve();
        child.once('exit', () => resolve());
      });
      await sleep(Math.random() * 6);
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
    expect(await machine.command(args)).toMatchObject({ code: 0 });
    // Without --skip-added, the command prints the results of all rows.
    const { code, stdout, stderr } = await machine.command(args.filter((arg) => arg !== '--skip-added'));
    expect({ code, stderr }).toMatchObject({ code: 0 });

    const results = JSON.parse(stdout) as { result: string; pet: { id: number; name: string } }[];
    const listed = await machine.pets(['list', '--all', '--json']);
    const pets = JSON.parse(listed.stdout) as { id: number; name: string }[];
    report({ rows: ROWS, kills: KILLS, animals: pets.length });
    expect(pets.map(({ name }) => name).sort()).toEqual([...names].sort());
    expect(results.map(({ result, pet }) => [result, pet.id, pet.name])).toEqual(
      names.map((name) => ['added', pets.find((pet) => pet.name === name)?.id, name]),
    );
  },
  KILLS * 30_000 + 60_000,
);
