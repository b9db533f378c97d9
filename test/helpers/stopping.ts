import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { listAllPets } from './list-all-pets.ts';
import type { serveCommand } from './pets.ts';
import { Connection } from './raw-client.ts';

export const WRITERS = 64;

/** A running service and an API key with a large quota. */
type Service = { url: string; key: string };
type StoppableService = Service & Pick<Awaited<ReturnType<typeof serveCommand>>, 'end'>;
type Creation = { name: string; id?: number };

/** A raw keep-alive connection, which detects a truncated response. */
export async function openConnection({ url }: Service): Promise<Connection> {
  const connection = new Connection(Number(new URL(url).port), false);
  await once(connection.socket, 'connect');
  return connection;
}

/** The bytes of a creation. The name of the animal is also the idempotency key. */
export function creationBytes({ key, url }: Service, name: string): string {
  const body = JSON.stringify({ name, categoryId: 1 });
  const head = [
    'POST /v1/pets HTTP/1.1',
    `Host: ${new URL(url).host}`,
    `Authorization: Bearer ${key}`,
    `Idempotency-Key: "${name}"`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

/** The id of every animal of a store, by name. Fails if a name exists twice. */
async function animalsOf(service: Service): Promise<Map<string, number>> {
  const pets = await listAllPets(service);
  const animals = new Map(pets.map(({ id, name }) => [name, id]));
  expect(animals.size).toBe(pets.length);
  return animals;
}

/**
 * Ends a service under load, several times. Checks that every acknowledged animal is kept, and that each creation can
 * be repeated. After SIGTERM, only acknowledged animals may exist, because each executed request gets its response.
 *
 * @param start starts the service on the same store each time
 */
export async function endUnderLoad(
  start: () => Promise<StoppableService>,
  signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM',
  rounds = 3,
): Promise<void> {
  const creations: Creation[] = [];
  let answeredWhileStopping = 0;
  let toldToClose = 0;

  for (let round = 0; round < rounds; round++) {
    // After SIGKILL, the service must start immediately although the killed process left its lock.
    const service = await start();
    const connections = await Promise.all(Array.from({ length: WRITERS }, () => openConnection(service)));
    let isStopping = false;
    let answeredInRound = 0;
    const writers = connections.map(async (connection, writer) => {
      for (let i = 0; !connection.isClosed; i++) {
        const creation: Creation = { name: `${round}-${writer}-${i}` };
        creations.push(creation);
        connection.socket.write(creationBytes(service, creation.name));
        const answered = await connection.receive().catch((error: unknown) => {
          // Only a killed service may send a part of a response.
          if (signal === 'SIGTERM') throw error;
        });
        if (!answered) return;
        expect(answered.status).toBe(201);
        creation.id = JSON.parse(answered.body).id;
        answeredInRound++;
        if (isStopping) answeredWhileStopping++;
        if (answered.headers['connection'] === 'close') {
          toldToClose++;
          return;
        }
      }
    });
    await expect.poll(() => answeredInRound).toBeGreaterThan(WRITERS);
    if (signal === 'SIGKILL') await sleep(Math.random() * 80);
    isStopping = true;
    const { code, signal: by } = await service.end(signal);
    expect([code, by]).toEqual(signal === 'SIGTERM' ? [0, null] : [null, 'SIGKILL']);
    await Promise.all(writers);
  }

  const service = await start();
  const answered = creations.filter(({ id }) => id !== undefined);
  expect(answered.length).toBeGreaterThan(WRITERS * rounds);
  if (signal === 'SIGTERM') {
    expect(answeredWhileStopping).toBeGreaterThan(0);
    // Many connections end with `Connection: close`. The service closed the rest while they were idle.
    expect(toldToClose).toBeGreaterThan(0);
    // A request that arrived while its connection was closing was not executed.
    expect(await animalsOf(service)).toEqual(new Map(answered.map(({ name, id }) => [name, id])));
  } else expect(answered.length).toBeLessThan(creations.length);

  const left = creations.values();
  const repeat = async () => {
    const connection = await openConnection(service);
    for (const creation of left) {
      connection.socket.write(creationBytes(service, creation.name));
      const again = await connection.receive();
      expect(again?.status).toBe(201);
      const { id } = JSON.parse(again?.body ?? '');
      expect(id).toBe(creation.id ?? id);
      creation.id = id;
    }
  };
  await Promise.all(Array.from({ length: 8 }, repeat));
  expect(await animalsOf(service)).toEqual(new Map(creations.map(({ name, id }) => [name, id])));
}
