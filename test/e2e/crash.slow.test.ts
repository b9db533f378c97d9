import { join } from 'node:path';
import { expect, test } from 'vitest';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { freshMachine, serveCommand } from '../helpers/pets.ts';

// `npm run soak` kills the service more often.
const KILLS = Number(process.env['PETS_KILLS'] ?? 8);
const WRITERS = 8;

type Service = { url: string; key: string };
type Creation = { key: string; id?: number };

/** Creates an animal; returns its id, or undefined if the connection was cut. */
async function create({ url, key }: Service, creation: Creation): Promise<number | undefined> {
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': `"${creation.key}"`,
  };
  const body = JSON.stringify({ name: creation.key, categoryId: 1 });
  try {
    const response = await fetch(`${url}/pets`, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.timeout(10_000),
    });
    expect(response.status).toBe(201);
    return ((await response.json()) as { id: number }).id;
  } catch (error) {
    // A cut connection is expected; a timeout or any other error fails the test.
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

test(
  `killed ${KILLS} times with ${WRITERS} writers: no acknowledged animal is lost or duplicated`,
  async () => {
    const machine = await freshMachine();
    const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
    const creations: Creation[] = [];
    let service = await serveCommand(machine, args);

    for (let kill = 0; kill < KILLS; kill++) {
      let isKilled = false;
      const write = async (writer: number) => {
        for (let i = 0; !isKilled; i++) {
          const creation: Creation = { key: `${kill}-${writer}-${i}` };
          creations.push(creation);
          const id = await create(service, creation);
          if (id !== undefined) creation.id = id;
        }
      };
      const writers = Array.from({ length: WRITERS }, (_, writer) => write(writer));
      // Wait for two responses, so that a slow machine does not kill the server before it has done anything.
      const first = creations.length - WRITERS;
      const acknowledged = () => creations.slice(first).filter(({ id }) => id !== undefined).length;
      while (acknowledged() < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 80));
      isKilled = true;
      expect(await service.end('SIGKILL')).toMatchObject({ signal: 'SIGKILL' });
      await Promise.all(writers);
      // The service must start immediately although the killed process left its lock.
      service = await serveCommand(machine, args);
    }

    const ambiguous = creations.filter(({ id }) => id === undefined);
    expect(ambiguous.length).toBeGreaterThan(0);
    expect(creations.length).toBeGreaterThan(ambiguous.length + KILLS);
    for (const creation of creations) {
      const id = await create(service, creation);
      expect(id).toBe(creation.id ?? id);
      creation.id = id as number;
    }

    const pets = await listAllPets(service);
    expect(pets).toHaveLength(creations.length);
    expect(new Map(pets.map(({ id, name }) => [id, name]))).toEqual(
      new Map(creations.map(({ id, key }) => [id, key])),
    );
  },
  60_000 + KILLS * 20_000,
);
