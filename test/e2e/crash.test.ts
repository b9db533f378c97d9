import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, type Served, serve } from '../helpers/pets.ts';

// `npm run soak` kills many times more.
const KILLS = Number(process.env['PETS_KILLS'] ?? 8);
const WRITERS = 8;

type Creation = { key: string; id?: number };

/** Sends a creation; its id, or undefined where no answer came. */
async function create({ url, key }: Served, creation: Creation): Promise<number | undefined> {
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    'Idempotency-Key': `"${creation.key}"`,
  };
  const body = JSON.stringify({ name: creation.key, categoryId: 1 });
  try {
    const answer = await fetch(`${url}/pets`, {
      method: 'POST',
      headers,
      body,
      signal: AbortSignal.timeout(10_000),
    });
    expect(answer.status).toBe(201);
    return ((await answer.json()) as { id: number }).id;
  } catch (error) {
    // A connection that was cut; anything else is a fault, silence too.
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

test(
  `killed ${KILLS} times under ${WRITERS} writers: nothing acknowledged is lost, and nothing is there twice`,
  async () => {
    const machine = await freshMachine();
    const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
    const creations: Creation[] = [];
    let service = await serve(machine, args);

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
      await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 80));
      isKilled = true;
      expect(await service.end('SIGKILL')).toMatchObject({ signal: 'SIGKILL' });
      await Promise.all(writers);
      // At once, though the killed one has left its lock behind.
      service = await serve(machine, args);
    }

    const inDoubt = creations.filter(({ id }) => id === undefined);
    expect(inDoubt.length).toBeGreaterThan(0);
    expect(creations.length).toBeGreaterThan(inDoubt.length + KILLS);
    for (const creation of creations) {
      const id = await create(service, creation);
      expect(id).toBe(creation.id ?? id);
      creation.id = id as number;
    }

    const names = new Map<number, string>();
    let path: string | undefined = '/v1/pets?limit=100';
    while (path !== undefined) {
      const answer = await fetch(new URL(path, service.url), {
        headers: { Authorization: `Bearer ${service.key}` },
      });
      for (const { id, name } of (await answer.json()) as { id: number; name: string }[]) {
        expect(names.has(id)).toBe(false);
        names.set(id, name);
      }
      path = /^<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    }
    expect(names.size).toBe(creations.length);
    for (const { key, id } of creations) expect(names.get(id as number)).toBe(key);
  },
  20_000 + KILLS * 2_000,
);
